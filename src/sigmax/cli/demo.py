"""`sigmax demo`: constant noise, Dual and Cascade on bundled data, from training to a report."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sigmax.cli.pipeline import walk
from sigmax.cli.progress import say, warn
from sigmax.cli.tables import fitted
from sigmax.errors import RequestError
from sigmax.records.rounding import share_down

if TYPE_CHECKING:
    from sigmax.records.run import Run

CONFIG = """\
# What `sigmax demo` runs. To try something else, copy it, name another folder and run: sigmax pipeline run COPY
out = "."

[data]
source = "digits"
held_out = 0.1  # to calibrate the cascade on

[experts]
sigmas = [0.1, 0.2, 0.4]
model = "small-cnn"

[cascade]

[calibrate]
radii = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]

[labels]
n = 500

[router]
sigma = 0.4
model = "small-cnn"

[router.loss]
sharpness = 20.0
balance = false
consistency = 3.0
entropy = 0.0
strength = "none"

[certify]
rules = ["min", "consensus"]
n0 = 100
n = 5000
alpha = 0.001
"""
RADII = [place / 10 for place in range(8)]
MEAN = "mean"
NAMES = {"min": "Dual, rule min", "consensus": "Dual, consensus"}
ORACLE = "oracle"

Counts = dict[str, list[int]]  # how many inputs a system certifies at each of RADII


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for networks, systems, runs and the report.")] = Path(
        "sigmax-demo"
    ),
    maximum: Annotated[int | None, typer.Option("--max", help="Certify at most this many test images.")] = None,
) -> None:
    """Constant noise, Dual and Cascade on scikit-learn's digits: training, certificates, one table and a report.

    About two minutes. Example: `sigmax demo --out my-demo`
    """
    import torch

    from sigmax.files import written_whole
    from sigmax.pipeline import Pipeline, PipelineConfig

    # Networks this small gain little from a second thread, and on a busy machine lose much more waiting for it.
    torch.set_num_threads(1)

    file, text = out / "demo.toml", CONFIG + (f"max = {maximum}\n" if maximum is not None else "")
    pipeline = Pipeline(PipelineConfig.of(tomllib.loads(text), out), on_warning=warn, on_note=say)
    pipeline.check()
    if file.is_file() and not file.read_bytes().startswith(CONFIG.encode()):
        raise RequestError(
            f"{file} was changed, or comes from another version; run it with `sigmax pipeline run {file}`, or name "
            "another folder (--out)"
        )
    with written_whole(file) as draft:
        draft.write_text(text)
    certified = len(pipeline.test) if maximum is None else min(maximum, len(pipeline.test))
    how = pipeline.config
    about = (
        f"Digits: {len(pipeline.train)} images to train on, {certified} to certify, 8x8 pixels in [0, 1]. "
        f"Three networks, of sigma {', '.join(map(str, how.experts.sigmas))}, serve alone, in a Dual and in a Cascade; "
        f"n0={how.certify.n0}, n={how.certify.n:,}, alpha={how.certify.alpha}."
    )
    say(fill(about, 78))
    runs = walk(pipeline, table=table_of)
    _conclude(runs, out)


def table_of(runs: "Sequence[Run]") -> Table:
    """Certified accuracy of every system and of the oracle, a row each."""
    counts, inputs = counted(runs), len(runs[0].records)
    columns = {"name": list(counts)}
    for place, radius in enumerate(RADII):
        columns[f"{radius:g}"] = [share_down(100 * own[place] / inputs) for own in counts.values()]
    columns[MEAN] = [share_down(100 * sum(own) / len(RADII) / inputs) for own in counts.values()]
    plan = runs[0].plan
    notes = [
        f"{inputs} inputs, n {plan.n}, alpha {plan.alpha}; mean: over the radii shown",
        "oracle: the best sigma for each input, chosen by its true class; no certificate",
    ]
    return fitted(columns, notes, norm=plan.norm)


def counted(runs: "Sequence[Run]") -> Counts:
    """How many inputs each system certifies at the radii; the oracle has the best constant run for the true class."""
    import numpy as np

    from sigmax.report.metrics.accuracy import certified_counts, reached

    radii, found = np.asarray(RADII), Counts()
    for run in runs:
        found[_name(run)] = certified_counts(run, radii).tolist()
    best: dict[int, float] = {}
    for run in runs:
        if run.plan.rule["scheme"] == "smoothed":
            for record in run.records:
                if record.correct:
                    best[record.index] = max(best.get(record.index, 0.0), record.certificate.radius)
    found[ORACLE] = reached(np.sort(list(best.values())), radii).tolist()
    return found


def _name(run: "Run") -> str:
    rule = run.plan.rule
    if rule["scheme"] == "smoothed":
        return f"constant {rule['sigma']:g}"
    return NAMES[rule["rule"]] if rule["scheme"] == "dual" else "Cascade"


def ahead(counts: Counts) -> str:
    """Where the cascade certifies more inputs than every single sigma, as many as the best, or fewer."""
    single = [own for name, own in counts.items() if name.startswith("constant")]
    best, cascade = [max(column) for column in zip(*single, strict=True)], counts["Cascade"]
    places = {
        "ahead of every single sigma": [r for r, c, b in zip(RADII, cascade, best, strict=True) if c > b],
        "level with the best of them": [r for r, c, b in zip(RADII, cascade, best, strict=True) if c == b],
        "behind the best of them": [r for r, c, b in zip(RADII, cascade, best, strict=True) if c < b],
    }
    said = [f"{where} at radius {', '.join(f'{r:g}' for r in radii)}" for where, radii in places.items() if radii]
    wins = sum(sum(cascade) > sum(own) for own in single)
    mean = "above every single sigma" if wins == len(single) else f"above {wins} of the {len(single)} sigmas"
    return f"The cascade is {'; '.join(said)}. Its mean is {mean}."


SHOWN = """
What was shown:
  One sigma for all inputs: little noise certifies no large radius, and much
    noise loses accuracy.
  Dual (Sun et al. 2026): a smoothed router picks a sigma for each input. Rule
    min is the published certificate; consensus certifies further where the
    sigmas agree.
  Cascade: the largest sigma answers where it is confident, and else defers to
    the next. It needs no router and no labels, only images held out for
    calibration."""
NEXT = """
Next:
  # where `make demo` installed sigmax
  source .venv/bin/activate
  # every input: its class, radius and sigma, and what limits the radius
  sigmax show {cascade} --sort radius
  # one input, stage by stage
  sigmax show {cascade} --index {index}
  # what another key redoes, and what it reuses
  sigmax pipeline run {file} --set router.loss.consistency=1 --dry-run
  # a network of your own
  sigmax build smoothed NETWORK --sigma 0.25 --out SYSTEM"""


def _conclude(runs: "Sequence[Run]", out: Path) -> None:
    say(SHOWN)
    say(fill(ahead(counted(runs)), 78, initial_indent="  ", subsequent_indent="  "))
    (cascade,) = (run for run in runs if run.plan.rule["scheme"] == "cascade")
    index = min(record.index for record in cascade.records)
    say(NEXT.format(cascade=cascade.path, index=index, file=out / "demo.toml"))
