"""`sigmax compare`: several schemes on the same network, data and budget, as one table and one figure."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli.progress import complain, console, progress, resumable, say

MOST_RADII = 5  # columns of accuracies that 80 characters hold

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.cli.compare_config import CompareConfig
    from sigmax.records.run import Run


def compare(
    config: Annotated[Path, typer.Argument(help="The comparison's TOML file.", metavar="CONFIG")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE in place of what the file says, as certify.n=1000; repeat for more."),
    ] = None,
) -> None:
    """Certify the same inputs with several schemes and the same budget; what is finished is kept and skipped.

    Writes a run file for each scheme, and compare.md, .csv, .json, .pdf and .png with accuracies at radii, draws,
    seconds and what the soundness of each rests on.

    Example: `sigmax compare schemes.toml`
    """
    from sigmax.cli.compare_config import CompareConfig
    from sigmax.records.verify import verify
    from sigmax.report.accuracy import checked_radii
    from sigmax.report.scheme_table import scheme_table, write_scheme_table

    asked = CompareConfig.read(config, changes or ())
    radii = checked_radii(asked.radii) if asked.radii else None
    with resumable(f"Every input finished so far is kept in {asked.out}."):
        runs = _certified(asked)
    wrong = [run for run in runs.values() if not verify(run.path).holds]
    for run in wrong:
        complain(f"{run.path} does not verify; see sigmax verify {run.path}", style="red")
    if wrong:
        complain("No table was written: it would show as proved what is not.", style="red")
        raise typer.Exit(1)
    written = write_scheme_table(runs, asked.out, radii)
    console.print(_shown(scheme_table(runs, radii)))
    say("Wrote " + ", ".join(str(path) for path in written))


def _certified(asked: "CompareConfig") -> "dict[str, Run]":
    """The run of each scheme. Whatever is wrong with any of them is said before the first is certified."""
    from sigmax import data as sources
    from sigmax.cli.compare_schemes import made_schemes, warm_up
    from sigmax.system.job import certify_run, check_fits
    from sigmax.train.config_table import inside
    from sigmax.train.pipeline_files import certified

    schemes = made_schemes(asked)
    dataset = sources.load(asked.data.source, asked.data.split, size=asked.data.image_size)
    for name, scheme in schemes.items():
        with inside(f"schemes.{name}"):
            request = asked.request(name)
            scheme.check_question(**{key: request[key] for key in ("n0", "n", "alpha", "sampling")})
            check_fits(scheme, dataset)
    runs = {}
    for name, scheme in schemes.items():
        out = asked.out / f"{name}.jsonl"
        with progress(f"certify {name}") as watch:
            if not certified(out):
                warm_up(scheme, dataset.pixels([0]))
            runs[name] = certify_run(scheme, dataset, out, **asked.request(name), watch=watch)
    return runs


def _shown(frame: "pd.DataFrame") -> Table:
    from sigmax.report.scheme_table import SOUND, cell_text

    radii = [column for column in frame.columns if column[:1].isdigit()]
    step = -(-len(radii) // MOST_RADII)
    frame = frame.drop(columns=["ACR", *(r for i, r in enumerate(radii) if i % step)])  # the files have all of it
    table = Table(title="certified accuracy in % at l2 radius", caption="draws and seconds are an input's")
    for column in frame.columns:
        if column in ("scheme", SOUND):
            table.add_column(str(column), overflow="fold", min_width=9)
        else:
            table.add_column(str(column), justify="right", no_wrap=True)
    for _, row in frame.astype(object).iterrows():
        table.add_row(*(Text(cell_text(str(column), cell)) for column, cell in row.items()))
    return table
