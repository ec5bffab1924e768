"""`sigmax report`: tables and curves from run files."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.progress import console, say
from sigmax.cli.tables import summary_table


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to.")],
) -> None:
    """Write a folder with the table and the certified-accuracy curves of the given runs.

    Example: `sigmax report runs/a.jsonl runs/b.jsonl --out report`
    """
    from sigmax import report as reports
    from sigmax.records.run import read

    opened = [read(path) for path in runs]
    written = reports.write(opened, out)
    console.print(summary_table(opened))
    say("Wrote " + ", ".join(str(path) for path in written))
