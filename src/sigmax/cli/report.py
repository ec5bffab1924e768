"""`sigmax report`: tables and curves from run files."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.options import SOURCES, ImageSize, numbers
from sigmax.cli.progress import console, say
from sigmax.cli.tables import shown

if TYPE_CHECKING:
    from rich.table import Table

    from sigmax.data import Dataset
    from sigmax.records.run import Run

CAUTIONS = 3  # warnings printed below the table


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to.")],
    data: Annotated[str | None, typer.Option("--data", help=f"The images, to show them: {SOURCES}.")] = None,
    split: Annotated[str | None, typer.Option(help="Which part of the data (default: the one the runs name).")] = None,
    image_size: ImageSize = None,
    radii: Annotated[str | None, typer.Option(help="Of the tables, as 0,0.25,0.5 (default: all of the runs).")] = None,
    linf: Annotated[int | None, typer.Option("--linf", metavar="DIM", help="Also l-infinity, of DIM numbers.")] = None,
) -> None:
    """Write a folder with a page to explore (report.html), tables and curves of the given runs.

    The page opens from disk. Give a dual run together with the runs of its experts to see what its router gains and
    loses.

    Example: `sigmax report runs/a.jsonl runs/b.jsonl --data digits --out report`
    """
    from sigmax.report.compare.comparison import table
    from sigmax.report.compare.diagnosis import routing_analysis
    from sigmax.report.folder import write
    from sigmax.report.metrics.accuracy import grid
    from sigmax.report.runs import named, norm_of
    from sigmax.report.tables import in_a_line

    by_name = named(runs)
    images = None if data is None else _images(by_name.values(), data, split, image_size)
    found = routing_analysis(by_name)
    asked = None if radii is None else numbers(radii, "--radii", "radii such as 0,0.25,0.5")
    written = write(by_name.values(), out, radii=asked, images=images, found=found)
    frame = table(by_name, found, grid(by_name.values(), asked))
    console.print(shown(frame, norm=norm_of(by_name.values())))
    if linf is not None:
        console.print(_implied(by_name.values(), linf))
    _print_cautions(by_name)
    for name in found.routings:
        say(in_a_line(name, by_name[name], found))
    say("Wrote " + ", ".join(str(path) for path in written))


def _implied(runs: "Iterable[Run]", dim: int) -> "Table":
    """Certified accuracy in l-infinity, named as what it is."""
    from rich.table import Table

    from sigmax.records.rounding import share_down
    from sigmax.report.metrics.implied import STEPS, implied_accuracy

    frame = implied_accuracy(runs, dim)
    title = f"certified accuracy in % at l-infinity radius (in 1/255), implied by the radii above, {dim:,} numbers"
    table = Table("name", "implied by", *(f"{steps:g}" for steps in STEPS), title=title)
    for _, row in frame.iterrows():
        name, norm, *shares = row
        table.add_row(name, norm, *("-" if math.isnan(share) else share_down(share) for share in shares))
    return table


def _print_cautions(runs: "Mapping[str, Run]") -> None:
    """What makes the table's figures wrong or not comparable: the worst of it, since report.md has all notes."""
    from sigmax.report.notes import cautions

    found = cautions(runs)
    for sentence in found[:CAUTIONS]:
        say(f"warning: {sentence}", style="yellow")
    if len(found) > CAUTIONS:
        say(f"... and {len(found) - CAUTIONS} more in report.md")


def _images(runs: "Iterable[Run]", source: str, split: str | None, size: int | None) -> "Dataset":
    """The data set, in the given split or else in the one that the runs name."""
    from sigmax.data import load
    from sigmax.errors import RequestError
    from sigmax.records.logs.read import NOT_STATED

    named = sorted({str(run.plan.data.get("split")) for run in runs} - {NOT_STATED, "None"})
    if split is None and len(named) != 1:
        problem = f"are of several splits ({', '.join(named)})" if named else "do not name their split"
        raise RequestError(f"the runs {problem}; choose whose images to show with --split")
    return load(source, named[0] if split is None else split, size=size)
