"""`sigmax report`: tables and curves from run files."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.progress import console, say
from sigmax.cli.tables import shown


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to.")],
) -> None:
    """Write a folder with the table and the certified-accuracy curves of the given runs.

    Give a dual run together with the runs of its experts to see what its router gains and loses.

    Example: `sigmax report runs/a.jsonl runs/b.jsonl --out report`
    """
    from sigmax.report.comparison import grid, table
    from sigmax.report.folder import write_found
    from sigmax.report.routing_page import in_a_line
    from sigmax.report.runs import named
    from sigmax.report.study import study

    by_name = named(runs)
    found = study(by_name)
    written = write_found(by_name, found, out)
    console.print(shown(table(by_name, found, grid(by_name.values(), None), strict=False)))
    for name in found.routings:
        say(in_a_line(name, by_name[name], found))
    say("Wrote " + ", ".join(str(path) for path in written))
