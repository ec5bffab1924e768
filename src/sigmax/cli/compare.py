"""`sigmax compare`: several schemes on the same network, data and budget, as one table and one figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, console, progress, resumable, say
from sigmax.cli.tables import as_text, fitted

if TYPE_CHECKING:
    from sigmax.data import Dataset
    from sigmax.pipeline.compare.config import CompareConfig
    from sigmax.records.run import Run
    from sigmax.schemes.scheme import Scheme


def compare(
    config: Annotated[Path, typer.Argument(help="The comparison's TOML file.", metavar="CONFIG")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE in place of what the file says, as certify.n=1000; repeat for more."),
    ] = None,
    workers: opt.Workers = None,
    gpus_per_worker: opt.GpusPerWorker = None,
    on: opt.On = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it all and say what is left.")] = False,
) -> None:
    """Certify the same inputs with several schemes and the same budget; what is finished is kept and skipped.

    Writes a run file for each scheme, and compare.md, .csv, .json, .pdf and .png with accuracies at radii, samples,
    seconds and what each assumes.

    Example: `sigmax compare schemes.toml`
    """
    from sigmax.pipeline.compare.config import CompareConfig
    from sigmax.records.verify import verify
    from sigmax.report import scheme_table, write_scheme_table
    from sigmax.report.metrics.accuracy import checked_radii
    from sigmax.report.runs import norm_of

    asked = CompareConfig.read(config, changes or ())
    radii = checked_radii(asked.radii) if asked.radii else None
    work = _checked(asked)
    if dry_run:
        _show(work)
        return
    with resumable(f"Every input finished so far is kept in {asked.out}."):
        how = {"workers": workers, "gpus_per_worker": gpus_per_worker, "backend": on}
        runs = _certified(work, how)
    wrong = [run for run in runs.values() if not verify(run.path).holds]
    for run in wrong:
        complain(f"{run.path} does not verify; see sigmax verify {run.path}", style="red")
    if wrong:
        complain("No table was written: it would show as proved what is not.", style="red")
        raise typer.Exit(1)
    written = write_scheme_table(runs, asked.out, radii)
    notes = ["samples and seconds: of an input, on average"]
    console.print(fitted(as_text(scheme_table(runs, radii)), notes, norm=norm_of(runs.values())))
    say("Wrote " + ", ".join(str(path) for path in written))


class Work(NamedTuple):
    """One scheme of the comparison: what is certified with it, how, and into which file."""

    scheme: "Scheme"
    dataset: "Dataset"
    out: Path
    request: "dict[str, Any]"


def _checked(asked: "CompareConfig") -> dict[str, Work]:
    """All that is to be done, by the schemes' names; what is wrong with any of it is said here."""
    from sigmax import data as sources
    from sigmax.config.validation import inside
    from sigmax.jobs.certify import plan_run
    from sigmax.pipeline.compare.schemes import made_schemes
    from sigmax.records.journal import check_goes_on
    from sigmax.rules.checks import check_norms

    schemes = made_schemes(asked)
    check_norms({name: scheme.rule for name, scheme in schemes.items()}, "schemes of a comparison")
    dataset = sources.load(asked.data.source, asked.data.split, size=asked.data.image_size)
    work = {
        name: Work(scheme, dataset, asked.out / f"{name}.jsonl", asked.request(name))
        for name, scheme in schemes.items()
    }
    for name, part in work.items():
        with inside(f"schemes.{name}"):
            check_goes_on(part.out, plan_run(part.scheme, dataset, **part.request))
    return work


def _certified(work: Mapping[str, Work], how: Mapping[str, Any]) -> "dict[str, Run]":
    """The run of each scheme."""
    from sigmax.jobs.certify import certify_run
    from sigmax.pipeline.compare.schemes import warm_up
    from sigmax.pipeline.files import certified

    runs = {}
    for name, (scheme, dataset, out, request) in work.items():
        with progress(f"certify {name}") as watch:
            if not certified(out):
                warm_up(scheme, dataset.pixels([0]))
            runs[name] = certify_run(scheme, dataset, out, **request, **how, watch=watch)
    return runs


def _show(work: Mapping[str, Work]) -> None:
    """Every scheme and how far its run is; nothing is written."""
    from sigmax.pipeline.files import certified

    table, done = Table("scheme", "state", "leaves"), 0
    for name, part in work.items():
        state = "done" if certified(part.out) else "begun" if part.out.exists() else "to do"
        done += state == "done"
        table.add_row(Text(name), state, Text(str(part.out)))
    console.print(table)
    say(f"{done} of {len(work)} schemes are done; nothing stands in the way of the others.")
