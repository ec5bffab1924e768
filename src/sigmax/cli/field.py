"""`sigmax import` and `sigmax export`: to and from the log formats of the field."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.progress import complain, say
from sigmax.errors import RequestError


class Format(StrEnum):
    """What a run can be exported to."""

    TSV = "tsv"
    PARQUET = "parquet"


def import_log(
    log: Annotated[Path, typer.Argument(help="A log of another tool: tab-separated, one row an input.")],
    sigma: Annotated[list[float], typer.Option(help="Noise of that run; repeat the option for a cascade.")],
    n: Annotated[int, typer.Option("--n", help="Estimation draws of that run.")],
    alpha: Annotated[float, typer.Option(help="Its chance of a wrong certificate.")],
    out: Annotated[Path, typer.Option("--out", help="Run file to write.")],
    inputs: Annotated[int | None, typer.Option(help="How many rows a complete log would have.")] = None,
    data: Annotated[str | None, typer.Option(help="Name of the data set, for the reader.")] = None,
    split: Annotated[str | None, typer.Option(help="Which part of the data it certified, such as test.")] = None,
) -> None:
    """Read a log of the field, check it against sigma, n and alpha, and keep it as a run file.

    Example: `sigmax import cohen_sigma_0.25 --sigma 0.25 --n 100000 --alpha 0.001 --out runs/cohen.jsonl`
    """
    from sigmax.records.field import NOT_STATED, read_log
    from sigmax.records.journal import write_all

    if out.exists():
        raise RequestError(f"{out} exists already; choose another output file")
    plan, records, found = read_log(
        log,
        sigma=sigma,
        n=n,
        alpha=alpha,
        inputs=inputs,
        data=NOT_STATED if data is None else data,
        split=NOT_STATED if split is None else split,
    )
    write_all(out, plan, records)
    for note in found.notes:
        complain(f"note: {note}")
    say(
        f"Wrote {out}: {found.rows} of {found.planned} inputs, {found.abstained} abstained, "
        f"{len(found.impossible)} with an impossible radius."
    )


def export_run(
    run: Annotated[Path, typer.Argument(help="Run file, plain or gzipped.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write (default: beside the run).")] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="tsv: the field's log; parquet: all columns.")
    ] = Format.TSV,
) -> None:
    """Write a run as the field's log, or as a table with every column. Radii are rounded down.

    Example: `sigmax export runs/half.jsonl --format tsv --out half.tsv`
    """
    from sigmax.records.export import export_parquet, export_tsv
    from sigmax.records.run import read

    write = {Format.TSV: export_tsv, Format.PARQUET: export_parquet}[format_]
    opened = read(run)
    target = out or run.with_name(f"{run.name.split('.jsonl')[0]}.{format_.value}")
    if target.exists() and (out is None or target.samefile(run)):
        raise RequestError(f"{target} exists already; name another file with --out")
    write(opened, target)
    say(f"Wrote {target}: {len(opened.records)} inputs.")
