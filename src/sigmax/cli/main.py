"""The command line. Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted (Ctrl-C)."""

import io
import sys
from typing import Annotated

import typer

from sigmax import __version__
from sigmax.cli import (
    bench,
    build,
    certify,
    compare,
    demo,
    diagnose,
    field,
    finetune,
    label,
    pipeline,
    plan,
    predict,
    report,
    train,
    verify,
)
from sigmax.cli.progress import complain, quiet_but_first, say
from sigmax.errors import RequestError, RunError

app = typer.Typer(
    help="Certified robustness by randomized smoothing. Start with: sigmax demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:
    if asked:
        say(f"sigmax {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[  # by a callback of its own: the function's body comes after a verb is asked for
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.add_typer(train.app, name="train")
app.add_typer(build.app, name="build")
app.command("label")(label.label)
app.command("choose")(label.choose)
app.command("finetune")(finetune.finetune)
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(diagnose.app, name="diagnose")
app.command("plan")(plan.plan)
app.command("certify")(certify.certify)
app.command("predict")(predict.predict)
app.command("verify")(verify.verify)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("bench")(bench.bench)
app.command("import")(field.import_log)
app.command("export")(field.export_run)


def main() -> None:
    """Run a verb; turn the two kinds of error into their exit codes."""
    for stream in (sys.stdout, sys.stderr):  # a name the terminal cannot spell must not end a run
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    quiet_but_first()
    try:
        app()
    except RequestError as error:
        _say(error)
        sys.exit(2)
    except RunError as error:
        _say(error)
        sys.exit(1)


def _say(error: Exception) -> None:
    complain(f"error: {error}", style="red")
