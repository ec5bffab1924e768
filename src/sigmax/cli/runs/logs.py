"""`sigmax import` and `sigmax export`: to and from the format of published logs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigmax.cli.progress import say, warn
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.records.logs.read import ImportedLog

Format = Literal["tsv", "csv", "parquet"]


def import_logs(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Tab-separated, one row an input.")],
    n: Annotated[int, typer.Option("--n", help="Estimation samples of that run.")],
    alpha: Annotated[float, typer.Option(help="Its chance of a wrong certificate.")],
    out: Annotated[  # a Path has lost the slash at its end
        str, typer.Option("--out", metavar="PATH", help="Run file; or a folder: of several logs, or written FOLDER/.")
    ],
    sigma: Annotated[list[float] | None, typer.Option(help="Noise of that run; repeat for a cascade.")] = None,
    inputs: Annotated[int | None, typer.Option(help="How many rows a complete log would have.")] = None,
    data: Annotated[str | None, typer.Option(help="Name of the data set, for the reader.")] = None,
    split: Annotated[str | None, typer.Option(help="Which part of the data it certified, such as test.")] = None,
) -> None:
    """Read published logs, check them against sigma, n and alpha, and keep each as a run file.

    One that cannot be right is refused with what fits the radii; then nothing is written.

    Example: `sigmax import logs/*/sigma_* --n 100000 --alpha 0.001 --out runs`
    """
    from sigmax.records.journal import write_all
    from sigmax.records.logs.read import NOT_STATED

    places = _places(logs, out)
    stated = {
        "sigma": sigma or None,
        "n": n,
        "alpha": alpha,
        "inputs": inputs,
        "data": NOT_STATED if data is None else data,
        "split": NOT_STATED if split is None else split,
    }
    for place, (plan, records, found) in zip(places, _read(logs, stated), strict=True):
        write_all(place, plan, records)
        for note in found.notes:
            warn(note if len(logs) == 1 else f"{place.name}: {note}")
        column = " at most" if found.table.sigma_varies else " (from the column)"
        whence = {"given": "", "path": " (from the path)", "column": column}[found.sigma_from]
        say(
            f"Wrote {place}: sigma {', '.join(f'{s:g}' for s in found.sigmas)}{whence}, {found.rows} of "
            f"{found.planned} inputs, {found.abstained} abstained, {len(found.impossible)} with an impossible radius."
        )


def _read(logs: list[Path], stated: "dict[str, Any]") -> "list[ImportedLog]":
    """Every log; what is wrong with any of them is said before anything is written."""
    from sigmax.records.logs.read import read_log

    found, wrong = [], []
    for log in logs:
        try:
            found.append(read_log(log, **stated))
        except RequestError as error:
            wrong.append(str(error))
    if wrong and len(logs) > 1:
        wrong.append(f"Nothing was written; the other {len(found)} of {len(logs)} logs can be imported")
    if wrong:
        raise RequestError("\n".join(wrong))
    return found


def _places(logs: list[Path], given: str) -> list[Path]:
    """The run file of each log: `given` itself for one log and no folder, else a file in it by the log's name."""
    out, folder = Path(given), given.endswith(("/", os.sep))
    if len(logs) == 1 and not folder and not out.is_dir():
        places = [out]
    elif out.is_file() and len(logs) == 1:
        raise RequestError(f"--out {given} names a folder, and {out} is a file; choose another, or leave out the slash")
    elif out.is_file() or (len(logs) > 1 and out.suffix == ".jsonl"):
        raise RequestError(f"{len(logs)} logs need a folder for their run files; got --out {given}")
    else:
        places = [out / f"{name}.jsonl" for name in _names(logs)]
    there = [place for place in places if place.exists()]
    if there:
        raise RequestError(f"{', '.join(map(str, there[:3]))} exists already; choose another output file")
    return places


def _names(logs: list[Path]) -> list[str]:
    """The files' names, with as many of their folders before them as set all of them apart."""
    stems = [log.with_suffix("") if log.suffix[1:].isalpha() else log for log in logs]  # '.25' is no ending
    parts = [[part for part in stem.parts if part not in ("/", "..")] for stem in stems]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["-".join(of[-depth:]) for of in parts]
        if len(set(names)) == len(names):
            return names
    raise RequestError("two of the logs have the same path; give each log once")


def export_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run file, plain or gzipped.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write (default: beside the run).")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="Default: by --out, else tsv.")] = None,
) -> None:
    """Write a run as a table, a row an input by index: as published logs are (radii rounded down), csv or parquet.

    Example: `sigmax export runs/half.jsonl --out half.csv`
    """
    from sigmax.records.export import export_csv, export_parquet, export_tsv
    from sigmax.records.run import read

    kind = _format(out, format_)
    write = {"tsv": export_tsv, "csv": export_csv, "parquet": export_parquet}[kind]
    opened = read(run)
    target = out or run.with_name(f"{run.name.split('.jsonl')[0]}.{kind}")
    if target.exists() and (out is None or target.samefile(run)):
        raise RequestError(f"{target} exists already; name another file with --out")
    write(opened, target)
    say(f"Wrote {target}: {len(opened.records)} inputs.")


def _format(out: Path | None, asked: Format | None) -> Format:
    """The format asked for, which the file's ending must not contradict; else that of the ending, else tsv."""
    endings: dict[str, Format] = {".tsv": "tsv", ".csv": "csv", ".parquet": "parquet"}
    ending = None if out is None else endings.get(out.suffix.lower())
    if out is not None and not asked and not ending and out.suffix[1:2].isalpha():  # '.25' is no ending
        raise RequestError(
            f"--out {out} has an unknown ending; use {', '.join(endings)}, or say with --format what to write"
        )
    if asked and ending and asked != ending:
        raise RequestError(f"--format {asked} contradicts the ending of --out {out}; leave one of them out")
    return asked or ending or "tsv"
