"""`sigmax predict`: smoothed predictions for a data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import options as opt
from sigmax.cli.progress import STARTS_OVER, console, progress, resumable, say
from sigmax.errors import RequestError
from sigmax.files import check_writable, written_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sigmax.data import Dataset
    from sigmax.records.certificate import Prediction

LEAST_SHOWN = 1e-12  # a p-value below it tells no more
SHOWN = 20  # rows printed; all go to --out


def predict(
    system: opt.System,
    data: opt.Data,
    split: opt.Split = "test",
    n: Annotated[int, typer.Option("--n", help="Draws an input.")] = 1_000,
    alpha: opt.Alpha = 1e-3,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise (default: a fresh secret one).")] = None,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    image_size: opt.ImageSize = None,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write all predictions to.")] = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = opt.Precision.FP32,
) -> None:
    """Predict the smoothed class of each input, or abstain where the draws cannot tell.

    Example: `sigmax predict systems/cifar-0.5 --data cifar10:~/cifar --max 10`
    """
    from sigmax import data as sources
    from sigmax import system as systems

    scheme = systems.load(system, device=device, dtype=opt.torch_dtype(dtype), batch=batch)
    scheme.rule.check_predict(n=n, alpha=alpha)
    dataset = sources.load(data, split, size=image_size)
    indices = [int(i) for i in sources.select(len(dataset), start=start, skip=skip, maximum=maximum)]
    if out is not None and out.exists():
        raise RequestError(f"{out} exists already; name another file with --out")
    if out is not None:
        check_writable(out)
    predictions: list[Prediction] = []
    with resumable("Predictions are not kept.", STARTS_OVER), progress("predict") as watch:
        watch(0, len(indices))
        for first in range(0, len(indices), 64):
            part = indices[first : first + 64]
            predictions += scheme.predict(dataset.pixels(part), n=n, alpha=alpha, seed=seed, ids=part)
            watch(len(predictions), len(indices))
    show(dataset, indices, predictions)
    if out is not None:
        write_csv(out, dataset, indices, predictions)


def show(dataset: "Dataset", indices: "Sequence[int]", predictions: "Sequence[Prediction]") -> None:
    """The first rows, and how many were right, wrong or left open."""
    table = Table()
    for column in ("index", "label", "predicted", "p-value", "outcome"):
        table.add_column(column, justify="left" if column == "outcome" else "right")
    for index, p in list(zip(indices, predictions, strict=True))[:SHOWN]:
        named = "abstain" if p.predicted is None else dataset.classes[p.predicted]
        table.add_row(
            str(index),
            Text(dataset.classes[dataset.labels[index]]),
            Text(named),
            f"{p.p_value:.1e}" if p.p_value > LEAST_SHOWN else f"<{LEAST_SHOWN:g}",
            p.outcome.name.lower(),
        )
    console.print(table)
    right = sum(p.predicted == dataset.labels[i] for i, p in zip(indices, predictions, strict=True))
    open_ = sum(p.predicted is None for p in predictions)
    total = len(predictions)
    say(f"{total} inputs: {right} right, {total - right - open_} wrong, {open_} abstained")


def write_csv(out: Path, dataset: "Dataset", indices: "Sequence[int]", predictions: "Sequence[Prediction]") -> None:
    """All predictions; -1 for an abstention."""
    import pandas as pd

    rows = [
        (
            i,
            int(dataset.labels[i]),
            -1 if p.predicted is None else p.predicted,
            p.p_value,
            p.outcome.name.lower(),
        )
        for i, p in zip(indices, predictions, strict=True)
    ]
    with written_whole(out) as draft:
        pd.DataFrame(rows, columns=["index", "label", "predicted", "p_value", "outcome"]).to_csv(draft, index=False)
    say(f"Wrote {out}")
