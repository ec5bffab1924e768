"""`sigmax pipeline`: experts, labels, router, fine-tuning, certificates and report from one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import verify as verify_verb
from sigmax.cli.progress import complain, console, progress, resumable, say
from sigmax.cli.tables import summary_table

if TYPE_CHECKING:
    from sigmax.records.run import Run
    from sigmax.train import Pipeline

app = typer.Typer(help="The whole road of dual smoothing, driven by one file.", no_args_is_help=True)


@app.callback()
def _several_verbs() -> None:
    """Keep `run` a word of its own while it is the only one."""


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="The pipeline's TOML file.", metavar="CONFIG")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report/--no-report",
            help="Verify every run and write the report at the end; on a rented GPU that can wait.",
        ),
    ] = True,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE in place of what the file says, as router.sigma=0.5, or KEY= to leave it out; repeat.",
        ),
    ] = None,
) -> None:
    """Do what is left of a pipeline: phases that are done are skipped, one that was cut short goes on.

    What is wrong is said before any work. Steps can be added to the file later, and other inputs certified; what
    else decides a result needs another folder (`out`).

    Example: `sigmax pipeline run digits.toml --dry-run`
    """
    from sigmax.train import Pipeline, PipelineConfig

    pipeline = Pipeline(PipelineConfig.read(config, changes or ()), on_warning=warn)
    if dry_run:
        show(pipeline)
    else:
        walk(pipeline, report=report)


def warn(text: str) -> None:
    """What will not end well, in yellow."""
    complain(f"warning: {text}", style="yellow")


def show(pipeline: "Pipeline") -> None:
    """Every phase and whether its files are there; nothing is written. A device may be of another machine."""
    pipeline.check(devices=False)
    table = Table("phase", "state", "leaves")
    states = [(phase, phase.state) for phase in pipeline.phases()]
    for phase, state in states:
        table.add_row(phase.name, state, Text(", ".join(str(path) for path in phase.leaves)))
    console.print(table)
    done = sum(state == "done" for _, state in states)
    say(f"{done} of {len(states)} phases are done; the report is written anew each time.")


def walk(pipeline: "Pipeline", *, report: bool = True) -> None:
    """Run it, and unless that is to wait verify every certificate and write the report."""
    out = pipeline.config.out
    with resumable(f"What is finished is kept in {out}."):
        runs = pipeline.run(progress)
    if report:
        _conclude(pipeline, runs)
    else:
        console.print(summary_table(runs))
        say(f"Nothing was verified yet: sigmax verify {' '.join(str(run.path) for run in runs)}")


def _conclude(pipeline: "Pipeline", runs: "list[Run]") -> None:
    from sigmax import report
    from sigmax.records.verify import verify

    out = pipeline.config.out
    verdicts = [verify(run.path) for run in runs]
    for verdict in verdicts:
        verify_verb.show(verdict)
    shown = pipeline.test if pipeline.test.shape[0] in (1, 3) else None  # grey or in colour
    written = report.write(runs, out / "report", images=shown)
    console.print(summary_table(runs))
    say("\nWhere to look:", style="bold")
    say(f"  report   {', '.join(str(path) for path in written)}")
    say(f"  runs     {out / 'runs'} (every count, one line an input)")
    say(f"  systems  {out / 'systems'} (use them: sigmax predict {[*pipeline.systems()][-1]} --data ...)")
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
