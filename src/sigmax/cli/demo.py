"""`sigmax demo`: the whole road on bundled data, as a user would walk it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import verify as verify_verb
from sigmax.cli.progress import console, progress, resumable, say
from sigmax.cli.tables import summary_table

if TYPE_CHECKING:
    from sigmax.data import Dataset
    from sigmax.records.run import Run

SIGMAS = (0.1, 0.2, 0.4)
N0, N, ALPHA = 100, 10_000, 1e-3


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for networks, systems, runs and the report.")] = Path(
        "sigmax-demo"
    ),
    maximum: Annotated[int | None, typer.Option("--max", help="Certify at most this many test images.")] = None,
) -> None:
    """Train, certify, verify and report on scikit-learn's handwritten digits: about a minute on two cores.

    Example: `sigmax demo --out my-demo`
    """
    from sigmax import data, report
    from sigmax.records.verify import verify

    train, test = data.load("digits", "train"), data.load("digits", "test")
    say(
        f"Digits: {len(train)} images to train on, {len(test)} to certify, 8x8 pixels in [0, 1]. "
        f"Noise levels {', '.join(map(str, SIGMAS))}; n0={N0}, n={N:,}, alpha={ALPHA}."
    )
    with resumable(f"What is finished is kept in {out}."):
        runs = [_one_sigma(sigma, train, test, out, maximum) for sigma in SIGMAS]
    verdicts = [verify(run.path) for run in runs]
    for verdict in verdicts:
        verify_verb.show(verdict)
    written = report.write(runs, out / "report")
    console.print(summary_table(runs))
    _point_out(out, runs, written)
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)


def _one_sigma(sigma: float, train: "Dataset", test: "Dataset", out: Path, maximum: int | None) -> "Run":
    from sigmax import models
    from sigmax.certify.smoothed import Smoothed
    from sigmax.system.job import certify_run
    from sigmax.train import train_classifier

    name = f"sigma-{sigma:g}"
    with progress(f"train   {name}") as watch:
        network = train_classifier(
            train,
            architecture="small-cnn",
            sigma=sigma,
            out=out / "nets" / f"{name}.safetensors",
            on_step=watch,
        )
    model, description = models.load(network)
    scheme = Smoothed(model, sigma=sigma, classes=description.classes)
    scheme.save(out / "systems" / name)
    run = out / "runs" / (f"{name}.jsonl" if maximum is None else f"{name}-max{maximum}.jsonl")
    with progress(f"certify {name}") as watch:
        return certify_run(scheme, test, run, n0=N0, n=N, alpha=ALPHA, maximum=maximum, watch=watch)


def _point_out(out: Path, runs: "Sequence[Run]", written: Sequence[Path]) -> None:
    say("\nWhere to look:", style="bold")
    say(f"  report   {', '.join(str(path) for path in written)}")
    say(f"  runs     {', '.join(str(run.path) for run in runs)} (every count, one line an input)")
    say(f"  systems  {out / 'systems'} (use them: sigmax predict {out / 'systems' / 'sigma-0.2'} --data digits)")
