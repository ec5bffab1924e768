"""`sigmax merge`: runs of disjoint inputs become one."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.progress import say


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="Run file to write; the others stay as they are.")],
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Accept runs without their end line.")] = False,
) -> None:
    """Merge runs that differ in their inputs alone, such as parts of a data set certified on several machines.

    Every run is verified first. The result is the run that all inputs together would have given.

    Example: `sigmax merge runs/first.jsonl runs/second.jsonl --out runs/both.jsonl`
    """
    from sigmax.records.merge import merge as merged

    run = merged(runs, out, unfinished=unfinished)
    state = "" if run.finished else ", unfinished"
    say(f"Wrote {out}: {len(run.records):,} of {run.planned:,} inputs of {len(runs)} runs{state}.")
