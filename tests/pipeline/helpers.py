"""Pipelines on the digits, small but real, and what they leave."""

import json
from contextlib import contextmanager

import sigmax as sx
from sigmax.pipeline import Pipeline

DUAL = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
options.width = 4
training = {epochs = 4, batch = 32}
[labels]
n = 50
fraction = 0.1
[router]
sigma = 0.4
options.width = 4
training = {epochs = 3, batch = 32}
loss.consistency = 2.0
[finetune]
votes = 20
training = {epochs = 2, batch = 64, lr = 0.002}
[certify]
n0 = 20
n = 100
skip = 60
"""
STEPS = DUAL.replace('out = "work"', 'out = "work"\nsteps = ["router", "finetune", "router"]')
CASCADE = """
out = "work"
[data]
source = "digits"
held_out = 0.1
[experts]
sigmas = [0.1, 0.2, 0.4]
options.width = 4
training = {epochs = 4, batch = 32}
[cascade]
[calibrate]
radii = [0.0, 0.1, 0.2]
samples = 20
[certify]
n0 = 20
n = 100
skip = 60
"""


def pipeline(folder, text=DUAL, changes=(), on_warning=None):
    """The pipeline of a fresh process: nothing is remembered but what is in the files."""
    (folder / "pipe.toml").write_text(text)
    return Pipeline.read(folder / "pipe.toml", changes, on_warning)


class Killed(BaseException):
    pass


class Bars:
    """Which phases asked for a bar, and the end of the process at a call of one of them."""

    def __init__(self, phase=None, call=0):
        self.asked, self.phase, self.call = [], phase, call

    @contextmanager
    def __call__(self, name):
        self.asked.append(name)
        calls = iter(range(1, 1_000_000))

        def watch(done, total):
            assert 0 <= done <= total
            if name == self.phase and next(calls) == self.call:
                raise Killed

        yield watch


def states(folder, text=DUAL, changes=()):
    return [phase.state for phase in pipeline(folder, text, changes).phases()]


def contents(folder):
    """Everything in a folder, but for the seconds that runs and epochs took."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if name.endswith("metrics.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{**line, "seconds": None} for line in lines]
        elif path.suffix == ".jsonl":
            run = sx.read(path)
            found[name] = (run.plan, [(r.index, r.label, r.certificate) for r in run.records], run.finished)
        else:
            found[name] = path.read_bytes()
    return found
