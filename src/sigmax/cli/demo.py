"""`sigmax demo`: constant noise, Dual and Cascade on bundled data, from training to a report."""

import tomllib
from collections.abc import Hashable, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sigmax.cli.pipeline import walk
from sigmax.cli.progress import say, warn
from sigmax.cli.tables import as_text, fitted
from sigmax.errors import RequestError

if TYPE_CHECKING:
    import pandas as pd

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
MEAN = "mean"  # over these radii


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
    plan = runs[0].plan
    notes = [
        f"{len(runs[0].records)} inputs, n {plan.n}, alpha {plan.alpha}; mean: over the radii shown",
        "oracle: the best sigma for each input, chosen by its true class; no certificate",
    ]
    return fitted(as_text(accuracies(runs)), notes, norm=plan.norm)


def accuracies(runs: "Sequence[Run]") -> "pd.DataFrame":
    """Certified accuracy in % of every run and of the oracle, a row each: at the radii, and their mean."""
    from sigmax import report
    from sigmax.report.compare.diagnosis import ENVELOPE, ORACLE

    frame = report.compare(runs, RADII)
    frame = frame[frame["name"] != ENVELOPE].replace({"name": {ORACLE: "oracle"}})
    shares = frame[[f"{radius:g}" for radius in RADII]]
    return shares.assign(**{MEAN: shares.mean(axis=1)}).set_index(frame["name"]).reset_index()


def ahead(accuracy: "pd.DataFrame") -> str:
    """Where the cascade certifies more inputs than every single sigma, as many as the best, or fewer."""
    found: dict[Hashable, list[float]] = accuracy.set_index("name").T.to_dict("list")
    single = [own for name, own in found.items() if str(name).startswith("sigma-")]
    best, cascade = [max(column) for column in zip(*single, strict=True)], found["cascade"]
    lead = [c - b for c, b in zip(cascade, best, strict=True)][: len(RADII)]
    places = {
        "ahead of every single sigma": [r for r, more in zip(RADII, lead, strict=True) if more > 0],
        "level with the best of them": [r for r, more in zip(RADII, lead, strict=True) if more == 0],
        "behind the best of them": [r for r, more in zip(RADII, lead, strict=True) if more < 0],
    }
    said = [f"{where} at radius {', '.join(f'{r:g}' for r in radii)}" for where, radii in places.items() if radii]
    wins = sum(cascade[-1] > own[-1] for own in single)  # the mean is last
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
    say(fill(ahead(accuracies(runs)), 78, initial_indent="  ", subsequent_indent="  "))
    (cascade,) = (run for run in runs if run.plan.rule["scheme"] == "cascade")
    index = min(record.index for record in cascade.records)
    say(NEXT.format(cascade=cascade.path, index=index, file=out / "demo.toml"))
