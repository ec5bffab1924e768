"""`sigmax pipeline`: experts, a router or a cascade, certificates and report from one file."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli.options import FileChanges
from sigmax.cli.progress import console, progress, resumable, say, warn
from sigmax.cli.runs import verify as verify_verb
from sigmax.cli.tables import summary_table

if TYPE_CHECKING:
    from sigmax.pipeline import Pipeline
    from sigmax.records.run import Run

app = typer.Typer(help="From training to certificates and a report, driven by one file.", no_args_is_help=True)


@app.command()
def schema() -> None:
    """Print the JSON schema of a pipeline's file, for editors that complete and check TOML.

    Example: `sigmax pipeline schema > pipeline.schema.json`
    """
    from sigmax.config.tables import json_schema
    from sigmax.pipeline import PipelineConfig

    print(json.dumps(json_schema(PipelineConfig), indent=2))


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="The pipeline's TOML file.", metavar="CONFIG")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Verify every run and write the report.")] = True,
    redo: Annotated[bool, typer.Option("--redo", help="Train or label again where that is needed.")] = False,
    changes: FileChanges = None,
) -> None:
    """Do what is left of a pipeline: phases that are done are skipped, one that was cut short goes on.

    Phases that depend on a changed key are redone, experts and labels only with --redo; what they left is moved to
    OUT/previous.

    Example: `sigmax pipeline run digits.toml --set router.sigma=0.5 --dry-run`
    """
    from sigmax.pipeline import Pipeline

    pipeline = Pipeline.read(config, changes or (), warn, say)
    if dry_run:
        show(pipeline, redo=redo)
    else:
        walk(pipeline, report=report, redo=redo)


def show(pipeline: "Pipeline", *, redo: bool = False) -> None:
    """Every phase and whether its files are there; nothing is written. A device may be of another machine."""
    pipeline.check(devices=False, redo=True)
    changes = pipeline.redone()
    again = {phase.leaves: "redo" for phase in changes.phases}
    again |= {phase.leaves: "take back" for phase, _ in changes.returned}
    table = Table("phase", "state", "leaves")
    states = [(phase, again.get(phase.leaves, phase.state)) for phase in pipeline.phases()]
    for phase, state in states:
        table.add_row(phase.name, state, Text(", ".join(str(path) for path in phase.leaves)))
    console.print(table)
    for line in changes.lines() if changes else ():
        say(line)
    done = sum(state == "done" for _, state in states)
    say(f"{done} of {len(states)} phases are done; the report is written again each time.")
    pipeline.check_redone(redo=redo)


def walk(
    pipeline: "Pipeline",
    *,
    report: bool = True,
    redo: bool = False,
    table: "Callable[[Sequence[Run]], Table]" = summary_table,
) -> "list[Run]":
    """Run it, and unless that is to wait verify every certificate and write the report; `table` is what is printed."""
    out = pipeline.config.out
    with resumable(f"What is finished is kept in {out}."):
        runs = pipeline.run(progress, redo=redo)
    if report:
        _conclude(pipeline, runs, table)
    else:
        console.print(table(runs))
        say(f"Nothing was verified yet: sigmax verify {' '.join(str(run.path) for run in runs)}")
    return runs


def _conclude(pipeline: "Pipeline", runs: "list[Run]", table: "Callable[[Sequence[Run]], Table]") -> None:
    from sigmax import report
    from sigmax.records.verify import verify

    out = pipeline.config.out
    verdicts = [verify(run.path) for run in runs]
    for verdict in verdicts:
        verify_verb.show(verdict)
    shown = pipeline.test if pipeline.test.shape[0] in (1, 3) else None  # grey or in colour
    written = report.write(runs, out / "report", images=shown)
    console.print(table(runs))
    say("\nWhere to look:", style="bold")
    say(f"  report   {written[0]}")
    say(f"           with {', '.join(path.name for path in written[1:])}")
    say(f"  runs     {out / 'runs'} (every count, one line an input)")
    say(f"  systems  {out / 'systems'}")
    say(f"           use one: sigmax predict {[*pipeline.systems()][-1]} --data ...")
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
