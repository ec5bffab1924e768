"""A whole pipeline on the digits, small but real: once through, cut anywhere, repeated, extended, changed."""

import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.records.verify import verify
from sigmax.system import fingerprint
from sigmax.train import Pipeline, PipelineConfig, routes_of

CONFIG = """
out = "work"
steps = ["router", "finetune", "router"]
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
options.width = 4
training = {epochs = 5, batch = 32}
[labels]
n = 50
fraction = 0.1
[router]
sigma = 0.4
options.width = 4
training = {epochs = 3, batch = 32}
consistency = 2
[finetune]
votes = 20
training = {epochs = 2, batch = 64, lr = 0.002}
[certify]
n0 = 20
n = 100
skip = 30
"""
PHASES = [
    "train sigma-0.1",
    "train sigma-0.4",
    "make labels-1",
    "train router-1",
    "fine-tune tuned-1",
    "make labels-2",
    "train router-2",
    "certify sigma-0.1-tuned-1",
    "certify sigma-0.4-tuned-1",
    "certify dual-min-router-2-tuned-1",
    "certify dual-consensus-router-2-tuned-1",
]


def pipeline(folder, text=CONFIG):
    """The pipeline of a fresh process: nothing is remembered but what is in the files."""
    (folder / "pipe.toml").write_text(text)
    return Pipeline(PipelineConfig.read(folder / "pipe.toml"))


class Bars:
    """Which phases asked for a bar, and the end of the world at a call of one of them."""

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


class Killed(BaseException):
    pass


def states(folder, text=CONFIG):
    return [phase.state for phase in pipeline(folder, text).phases()]


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


def raw(folder):
    """Every file's bytes, and when it was written. A run file is opened to see whether it is finished."""
    return {
        path: (path.read_bytes(), None if path.parent.name == "runs" else path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run from beginning to end; (its folder, the seconds it took)."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole")
    assert states(folder) == ["to do"] * len(PHASES)
    assert list(folder.iterdir()) == [folder / "pipe.toml"], "to ask is not to begin"
    bars, began = Bars(), time.monotonic()
    pipeline(folder).run(bars)
    assert bars.asked == PHASES
    return folder, time.monotonic() - began


@pytest.fixture
def copy(whole, tmp_path):
    """What it left, to be changed."""
    shutil.copytree(whole[0], tmp_path / "copy")
    return tmp_path / "copy"


def test_what_comes_out(whole):
    folder, _ = whole
    assert states(folder) == ["done"] * len(PHASES)
    runs = pipeline(folder).run(Bars())
    assert [run.path.name for run in runs] == [
        "sigma-0.1-tuned-1-skip30.jsonl",
        "sigma-0.4-tuned-1-skip30.jsonl",
        "dual-min-router-2-tuned-1-skip30.jsonl",
        "dual-consensus-router-2-tuned-1-skip30.jsonl",
    ]
    for run in runs:
        assert run.finished
        assert [record.index for record in run.records] == list(range(0, 360, 30))
        assert verify(run.path).holds
    assert np.mean([record.correct for record in runs[0].records]) > 0.2, "it did learn something"


def test_every_part_is_the_one_before_it_made(whole):
    work = whole[0] / "work"
    experts = [sx.load(work / "experts" / f"sigma-{sigma}") for sigma in (0.1, 0.4)]
    tuned = sx.load(work / "tuned-1")
    routers = [models.load(work / "nets" / f"router-{i}.safetensors") for i in (1, 2)]
    runs = {run.path.name.split("-skip")[0]: run for run in pipeline(whole[0]).run(Bars())}
    assert [e["fingerprint"] for e in labelled(work / "labels-1")] == [fingerprint(e) for e in experts]
    assert [e["fingerprint"] for e in labelled(work / "labels-2")] == [fingerprint(e) for e in tuned.experts]
    assert fingerprint(tuned.router) == fingerprint(sx.Smoothed(routers[0][0], sigma=0.4, classes=2))
    for name, expert in zip(("sigma-0.1", "sigma-0.4"), tuned.experts, strict=True):
        assert runs[f"{name}-tuned-1"].plan.system == fingerprint(expert)
    for rule in ("min", "consensus"):
        dual = sx.Dual(sx.Smoothed(routers[1][0], sigma=0.4, classes=2), tuned.experts, rule=rule)
        name = f"dual-{rule}-router-2-tuned-1"
        assert runs[name].plan.system == fingerprint(dual) == fingerprint(sx.load(work / "systems" / name))
    routes = routes_of(tuned.router, sx.data.load("digits", "train"), n=20)
    assert json.loads((work / "tuned-1.training" / "routes.json").read_text())["routes"] == routes.tolist()
    for j in range(2):
        changed = fingerprint(tuned.experts[j]) != fingerprint(experts[j])
        assert changed == bool((routes == j).any())


def labelled(folder):
    import tomllib

    return list(tomllib.loads((folder / "labels.toml").read_text())["experts"].values())


def test_a_second_run_does_nothing(whole):
    folder, seconds = whole
    before, bars, began = raw(folder / "work"), Bars(), time.monotonic()
    again = pipeline(folder).run(bars)
    assert time.monotonic() - began < seconds / 2
    assert bars.asked == []
    assert raw(folder / "work") == before
    assert len(again) == 4


@pytest.mark.parametrize("call", [1, 3])
def test_cut_in_every_phase_it_ends_as_if_left_alone(whole, tmp_path, call):
    """A router's three epochs of five batches have fifteen steps; a run has thirteen calls."""
    for number, phase in enumerate(PHASES):
        bars = Bars(phase, call)
        with pytest.raises(Killed):
            pipeline(tmp_path).run(bars)
        assert bars.asked[-1] == phase
        assert PHASES[number - 1 : number + 1] == bars.asked or number == 0, "those before were not asked again"
        seen = states(tmp_path)
        assert seen[:number] == ["done"] * number
        assert seen[number] in ("begun", "to do")
        assert seen[number + 1 :] == ["to do"] * (len(PHASES) - number - 1)
    pipeline(tmp_path).run(Bars())
    assert contents(tmp_path / "work") == contents(whole[0] / "work")


def test_what_is_begun_is_seen(whole, copy):
    """From the files alone, whichever of them are there."""
    work = copy / "work"
    (work / "nets" / "router-2.safetensors").rename(work / "nets" / "router-2.safetensors.partial")
    run = work / "runs" / "sigma-0.1-tuned-1-skip30.jsonl"
    run.write_bytes(run.read_bytes().rsplit(b"\n", 4)[0])
    (work / "runs" / "sigma-0.4-tuned-1-skip30.jsonl").write_bytes(b'{"kind":')
    (work / "labels-1" / "expert-1.jsonl").unlink()
    shutil.rmtree(work / "tuned-1")
    shutil.rmtree(work / "experts" / "sigma-0.4")
    (work / "nets" / "sigma-0.1.safetensors").unlink()
    (work / "runs" / "dual-min-router-2-tuned-1-skip30.jsonl").unlink()
    begun = {
        "train sigma-0.1",
        "train sigma-0.4",
        "make labels-1",
        "fine-tune tuned-1",
        "train router-2",
        "certify sigma-0.1-tuned-1",
        "certify sigma-0.4-tuned-1",
    }
    expected = {name: "begun" if name in begun else "done" for name in PHASES}
    expected["certify dual-min-router-2-tuned-1"] = "to do"
    before = raw(work)
    assert dict(zip(PHASES, states(copy), strict=True)) == expected
    assert raw(work) == before
    (work / "nets" / "router-2.safetensors.partial").unlink()
    bars = Bars()
    pipeline(copy).run(bars)
    assert bars.asked == [name for name in PHASES if expected[name] != "done"]
    assert contents(work) == contents(whole[0] / "work")


# Another request


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("[0.1, 0.4]", "[0.1, 0.3]", "experts.sigmas is [0.1, 0.4] there and [0.1, 0.3] here"),
        ("[0.1, 0.4]", "[0.1, 0.2, 0.4]", "experts.sigmas is"),
        ("[0.1, 0.4]", "[0.1, 0.4]\none_network = true", "experts.one_network is False there and True here"),
        ("[0.1, 0.4]", '[0.1, 0.4]\nbound = "runner-up"', "experts.bound is"),
        ("epochs = 5", "epochs = 6", "experts.training.epochs is 5 there and 6 here"),
        ("n = 50", "n = 60", "labels.n is 50 there and 60 here"),
        ("fraction = 0.1", "fraction = 0.2", "labels.fraction is 0.1 there and 0.2 here"),
        ("sigma = 0.4", "sigma = 0.5", "router.sigma is 0.4 there and 0.5 here"),
        ("consistency = 2", "consistency = 3", "router.loss.consistency is 2.0 there and 3.0 here"),
        ("votes = 20", "votes = 30", "finetune.votes is 20 there and 30 here"),
        ("votes = 20", "votes = 20\nconsistency = 1.5", "finetune.consistency is not given there and 1.5 here"),
        ("lr = 0.002", "lr = 0.001", "finetune.training.lr is 0.002 there and 0.001 here"),
        (
            '"finetune", "router"]',
            '"router"]',
            "steps is ['router', 'finetune'] there and ['router', 'router'] here",
        ),
    ],
)
def test_another_request_is_refused_at_once(copy, old, new, named):
    before, bars = contents(copy / "work"), Bars()
    with pytest.raises(RequestError) as refused:
        pipeline(copy, CONFIG.replace(old, new)).run(bars)
    message = str(refused.value)
    assert message.startswith(f"{copy / 'pipe.toml'}: {copy / 'work'} holds another pipeline: ")
    assert named in message
    assert message.endswith("Delete it, or choose another output")
    assert bars.asked == []
    assert contents(copy / "work") == before


@pytest.mark.parametrize("also", [False, True])
def test_where_only_certifying_differs_there_is_a_way_short_of_deleting(copy, also):
    before, text = contents(copy / "work"), CONFIG.replace("n = 100", "n = 200")
    if also:
        text = text.replace("votes = 20", "votes = 30")
    with pytest.raises(RequestError, match="certify.n is 100 there and 200 here") as refused:
        pipeline(copy, text).run(Bars())
    assert ("Delete it" in str(refused.value)) == also
    assert ("Only certifying differs: certify a system of" in str(refused.value)) == (not also)
    assert ("--n 200 " in str(refused.value)) == (not also)
    assert contents(copy / "work") == before


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("epochs = 5", "epochs = 6", "sigma-0.1.safetensors exists and was made by another run"),
        ("n = 50", "n = 60", "labels-1 holds the labels of another request: n is 50 there and 60 here"),
        ("consistency = 2", "consistency = 3", "method.consistency is 2.0 there and 3.0 here"),
        ("votes = 20", "votes = 30", "router.votes is 20 there and 30 here"),
        ("n = 100", "n = 200", "n: 200 here, 100 there"),
    ],
)
def test_without_the_claim_the_files_refuse_by_themselves(copy, old, new, named):
    (copy / "work" / "pipeline.json").unlink()
    before = contents(copy / "work")
    with pytest.raises(RequestError, match=named):
        pipeline(copy, CONFIG.replace(old, new)).run(Bars())
    after = contents(copy / "work")
    after.pop("pipeline.json")
    assert after == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"steps": 1, "finetune": {}}', "{"])
def test_a_damaged_claim_is_refused(copy, content):
    (copy / "work" / "pipeline.json").write_text(content)
    with pytest.raises(
        RequestError, match="pipeline.json is damaged; delete it: all other files say what they are for"
    ):
        pipeline(copy).check()


def test_a_claim_of_an_earlier_version_is_understood(copy):
    """It told the split to certify, and none of the keys that came later."""
    path = copy / "work" / "pipeline.json"
    claim = json.loads(path.read_text())
    assert claim["labels"].keys() == {"n", "n0", "alpha", "fraction", "sample_seed", "seed"}
    assert claim["certify"].keys() == {"n", "n0", "alpha", "seed"}
    assert claim["data"].keys() == {"image_size", "train"}
    assert not {"store", "inner", "method", "hyper"} & {*claim, *claim["experts"]}
    path.write_text(json.dumps({**claim, "data": {**claim["data"], "test": "test"}}))
    bars = Bars()
    pipeline(copy).run(bars)
    assert bars.asked == []


def test_other_inputs_and_rules_may_be_certified_later(copy):
    text = CONFIG.replace("skip = 30", 'start = 1\nskip = 50\nmax = 2\nrules = ["min"]\nexperts = false')
    bars = Bars()
    runs = pipeline(copy, text).run(bars)
    assert bars.asked == ["certify dual-min-router-2-tuned-1"]
    assert [run.path.name for run in runs] == ["dual-min-router-2-tuned-1-start1-skip50-max2.jsonl"]
    assert [record.index for record in runs[0].records] == [1, 51]
    assert pipeline(copy, CONFIG).run(Bars())
    assert states(copy) == ["done"] * len(PHASES)


def test_steps_may_be_added_later(whole, tmp_path):
    """The router alone first, with settings of fine-tuning that do not matter yet; then the rest."""
    short = CONFIG.replace('["router", "finetune", "router"]', '["router"]').replace("votes = 20", "votes = 30")
    first = pipeline(tmp_path, short).run(Bars())
    names = ["sigma-0.1", "sigma-0.4", "dual-min", "dual-consensus"]
    assert [run.path.name for run in first] == [f"{name}-skip30.jsonl" for name in names]
    before = contents(tmp_path / "work")
    bars = Bars()
    pipeline(tmp_path).run(bars)
    assert bars.asked == PHASES[4:]
    after = contents(tmp_path / "work")
    assert before.pop("pipeline.json") != after["pipeline.json"]
    assert before.items() <= after.items(), "what was there is still there"
    assert contents(whole[0] / "work").items() <= after.items()
    assert states(tmp_path, short.replace("votes = 30", "votes = 20")) == ["done"] * 8
    with pytest.raises(RequestError, match="finetune.votes is 20 there and 30 here"):
        pipeline(tmp_path, CONFIG.replace("votes = 20", "votes = 30")).check()
    pipeline(tmp_path, short).check()


def test_it_goes_on_where_file_and_folder_were_moved_to(whole, tmp_path, monkeypatch):
    shutil.copytree(whole[0], tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    bars = Bars()
    Pipeline(PipelineConfig.read(Path("moved/pipe.toml"))).run(bars)
    assert bars.asked == []


def test_a_place_that_will_not_do_is_refused_before_any_work(tmp_path):
    (tmp_path / "work").write_text("a file")
    with pytest.raises(RequestError, match="cannot write"):
        pipeline(tmp_path).run(Bars())


# Other kinds of experts


GIVEN = """
out = "routed"
[data]
source = "digits"
[experts]
systems = ["{}", "{}"]
[labels]
n = 50
fraction = 0.1
[router]
sigma = 0.4
options.width = 4
training.epochs = 2
[certify]
n0 = 20
n = 100
max = 3
"""


def test_systems_that_exist_become_experts(whole, tmp_path):
    """One of them a dual system itself; that one is exchanged for another later, and it is noticed."""
    work = whole[0] / "work"
    shutil.copytree(work / "experts" / "sigma-0.1", tmp_path / "weak")
    shutil.copytree(work / "systems" / "dual-consensus-router-2-tuned-1", tmp_path / "routed-one")
    text = GIVEN.format("weak", tmp_path / "routed-one")
    bars = Bars()
    runs = pipeline(tmp_path, text).run(bars)
    assert bars.asked == [
        "make labels-1",
        "train router-1",
        "certify expert-0",
        "certify expert-1",
        "certify dual-min",
        "certify dual-consensus",
    ]
    assert [run.plan.rule["scheme"] for run in runs] == ["smoothed", "dual", "dual", "dual"]
    assert runs[2].plan.made_with["experts"] == [runs[0].plan.system, runs[1].plan.system]
    assert all(verify(run.path).holds for run in runs)
    assert all(path.name != "sigma-0.1" for path in (tmp_path / "routed").rglob("*")), "nothing was trained for it"
    before = contents(tmp_path / "routed")
    shutil.rmtree(tmp_path / "routed-one")
    shutil.copytree(work / "systems" / "dual-min-router-2-tuned-1", tmp_path / "routed-one")
    with pytest.raises(RequestError, match=r"labels-1 holds the labels of another request: experts.expert-1"):
        pipeline(tmp_path, text).run(Bars())
    assert contents(tmp_path / "routed") == before


def test_one_network_under_all_noises_stays_one(tmp_path):
    text = CONFIG.replace("sigmas = [0.1, 0.4]", "sigmas = [0.1, 0.4]\none_network = true")
    text = text.replace('["router", "finetune", "router"]', '["router", "finetune"]')
    text = text.replace("votes = 20", "votes = 20\nconsistency = 2.0")
    bars = Bars()
    runs = pipeline(tmp_path, text).run(bars)
    assert bars.asked[:2] == ["train experts", "make labels-1"]
    work = tmp_path / "work"
    assert sorted(path.name for path in (work / "nets").glob("*.safetensors")) == [
        "experts.safetensors",
        "router-1.safetensors",
    ]
    method = models.read(work / "nets" / "experts.safetensors").description.notes["training"]["method"]
    assert method == {"name": "mixed", "sigmas": [0.1, 0.4]}
    tuned = models.read(work / "tuned-1.training" / "expert-0.safetensors").description.notes["training"]["method"]
    assert (tuned["name"], tuned["consistency"], tuned["copies"]) == ("routed-consistency", 2.0, 2)
    for tuned in (0, 1):
        experts = pipeline(tmp_path, text).experts(tuned)
        assert experts[0].voters["base"].model is experts[1].voters["base"].model
        assert [expert.sigma for expert in experts] == [0.1, 0.4]
    final = work / "systems" / "dual-min-tuned-1"
    assert sorted(path.name for path in final.iterdir()) == [
        "expert-0.safetensors",
        "router.safetensors",
        "system.toml",
    ]
    system = sx.load(final)
    assert system.voters["expert-0/base"] is system.voters["expert-1/base"]
    assert all(verify(run.path).holds for run in runs)
    assert states(tmp_path, text) == ["done"] * len(bars.asked)


def test_too_little_noise_is_said_before_the_work_and_not_by_python(tmp_path, recwarn):
    text = GIVEN.replace('systems = ["{}", "{}"]', "sigmas = [0.1, 0.4]\noptions.width = 4\ntraining.epochs = 5")
    (tmp_path / "pipe.toml").write_text(text.replace("sigma = 0.4", "sigma = 0.3"))
    said, bars = [], Bars("train sigma-0.1", 1)
    with pytest.raises(Killed):
        Pipeline(PipelineConfig.read(tmp_path / "pipe.toml"), on_warning=said.append).run(bars)
    assert len(said) == 1
    assert said[0].startswith("router.sigma 0.3 is below the largest noise of the experts, 0.4")
    Pipeline(PipelineConfig.read(tmp_path / "pipe.toml")).run(Bars())
    assert not [warning for warning in recwarn if "sigma" in str(warning.message)]
