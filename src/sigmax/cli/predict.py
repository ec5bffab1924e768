"""`sigmax predict`: smoothed predictions for a data set."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import options as opt
from sigmax.cli.progress import STARTS_OVER, console, note_fewer, progress, resumable, say
from sigmax.errors import RequestError
from sigmax.files import check_writable, written_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sigmax.data import Dataset
    from sigmax.rules.certificate import Prediction

LEAST_SHOWN = 1e-12  # a p-value below it tells no more
SHOWN = 20  # rows printed; all go to --out


def predict(
    system: opt.System,
    data: opt.Data,
    split: opt.Split = "test",
    n: Annotated[int, typer.Option("--n", help="Samples an input.")] = 1_000,
    alpha: opt.Alpha = 1e-3,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise (default: a fresh secret one).")] = None,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    image_size: opt.ImageSize = None,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write all predictions to.")] = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = "fp32",
    code: opt.Code = None,
    workers: opt.Workers = None,
    gpus_per_worker: opt.GpusPerWorker = None,
    on: opt.On = "local",
) -> None:
    """Predict the smoothed class of each input, or abstain where the samples cannot tell.

    Image files of another size than the networks take are resized and cropped to it.

    Example: `sigmax predict systems/cifar-0.5 --data cifar10:~/cifar --max 10`
    """
    from sigmax import data as sources
    from sigmax import systems
    from sigmax.jobs.predict import predict_all

    scheme = systems.load(system, device=device, dtype=dtype, batch=batch, code=code or ())
    scheme.rule.check_predict(n=n, alpha=alpha)
    dataset = sources.load(data, split, size=image_size, fit=systems.input_shape(scheme))
    indices = [int(i) for i in sources.select(len(dataset), start=start, skip=skip, maximum=maximum)]
    note_fewer(len(indices), maximum, data)
    if out is not None and out.exists():
        raise RequestError(f"{out} exists already; name another file with --out")
    if out is not None:
        check_writable(out)
    dataset.take(indices).check_readable()
    begun = perf_counter()
    with resumable("Predictions are not kept.", STARTS_OVER), progress("predict") as watch:
        how: dict[str, Any] = {"workers": workers, "gpus_per_worker": gpus_per_worker, "backend": on}
        predictions = predict_all(scheme, dataset, indices, n=n, alpha=alpha, seed=seed, watch=watch, **how)
    show(dataset, indices, predictions)
    say(f"{(perf_counter() - begun) / len(indices):.2g} s an input")
    if out is not None:
        write_csv(out, dataset, indices, predictions)


def show(dataset: "Dataset", indices: "Sequence[int]", predictions: "Sequence[Prediction]") -> None:
    """The first rows, and how many were right, wrong or left open."""
    from sigmax.records.rounding import two_digits_up

    table = Table()
    files = dataset.files_at(indices)
    for column in ("index", *(["file"] if files else []), "label", "predicted", "p-value", "outcome"):
        table.add_column(column, justify="left" if column in ("file", "outcome") else "right")
    labels = dataset.labels_at(indices)
    for row, (index, label, p) in enumerate(list(zip(indices, labels, predictions, strict=True))[:SHOWN]):
        named = "abstain" if p.predicted is None else dataset.class_name(p.predicted)
        table.add_row(
            str(index),
            *([Text(files[row])] if files else []),
            Text(dataset.class_name(label)),
            Text(named),
            two_digits_up(p.p_value) if p.p_value > LEAST_SHOWN else f"<{LEAST_SHOWN:g}",
            p.outcome.name.lower(),
        )
    console.print(table)
    open_ = sum(p.predicted is None for p in predictions)
    total = len(predictions)
    right = sum(p.predicted == label for label, p in zip(labels, predictions, strict=True))
    answered = f"{right} right, {total - right - open_} wrong" if dataset.labelled else f"{total - open_} answered"
    say(f"{total} inputs: {answered}, {open_} abstained")


def write_csv(out: Path, dataset: "Dataset", indices: "Sequence[int]", predictions: "Sequence[Prediction]") -> None:
    """All predictions; -1 for an abstention, an empty label where none is known, the file of an image folder's."""
    import pandas as pd

    files = dataset.files_at(indices)
    columns = {
        "index": indices,
        **({} if files is None else {"file": files}),
        "label": dataset.labels_at(indices),
        "predicted": [-1 if p.predicted is None else p.predicted for p in predictions],
        "p_value": [p.p_value for p in predictions],
        "outcome": [p.outcome.name.lower() for p in predictions],
    }
    with written_whole(out) as draft:
        pd.DataFrame(columns).to_csv(draft, index=False)
    say(f"Wrote {out}")
