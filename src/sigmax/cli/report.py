"""`sigmax report`: tables and curves from run files."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.options import SOURCES, ImageSize
from sigmax.cli.progress import console, say
from sigmax.cli.tables import shown

if TYPE_CHECKING:
    from sigmax.data import Dataset
    from sigmax.records.run import Run


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to.")],
    data: Annotated[
        str | None, typer.Option("--data", help=f"The images that were certified, to show them: {SOURCES}.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which part of the data (default: the one the runs name).")
    ] = None,
    image_size: ImageSize = None,
) -> None:
    """Write a folder with a page to explore (report.html), tables and curves of the given runs.

    The page opens from disk and holds all it needs. With `--data` it shows the image of every input. Give a dual
    run together with the runs of its experts to see what its router gains and loses.

    Example: `sigmax report runs/a.jsonl runs/b.jsonl --data digits --out report`
    """
    from sigmax.report.comparison import grid, table
    from sigmax.report.folder import write_found
    from sigmax.report.routing_page import in_a_line
    from sigmax.report.runs import named
    from sigmax.report.study import study

    by_name = named(runs)
    images = None if data is None else _images(by_name.values(), data, split, image_size)
    found = study(by_name)
    written = write_found(by_name, found, out, images=images)
    console.print(shown(table(by_name, found, grid(by_name.values(), None), strict=False)))
    for name in found.routings:
        say(in_a_line(name, by_name[name], found))
    say("Wrote " + ", ".join(str(path) for path in written))


def _images(runs: "Iterable[Run]", source: str, split: str | None, size: int | None) -> "Dataset":
    """The data set, in the split that the runs name unless told another."""
    from sigmax.data import load
    from sigmax.errors import RequestError
    from sigmax.records.field import NOT_STATED

    named = sorted({str(run.plan.data.get("split")) for run in runs} - {NOT_STATED, "None"})
    if split is None and len(named) != 1:
        told = f"are of several splits ({', '.join(named)})" if named else "do not name their split"
        raise RequestError(f"the runs {told}; say whose images to show with --split")
    return load(source, named[0] if split is None else split, size=size)
