"""The command line. Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted (Ctrl-C, SIGTERM).

Verbs import torch, pandas and the like when they run, so that `verify` and `report` work where torch does not.
"""

import io
import signal
import sys
import warnings
from typing import Annotated

import typer

from sigmax.cli import bench, certify, compare, demo, diagnose, pipeline, plan, predict, report
from sigmax.cli.build.cascade import cascade, multiscale
from sigmax.cli.build.dual import dual
from sigmax.cli.build.others import lipschitz, memorized, semi_elastic, splitting
from sigmax.cli.build.smoothed import smoothed
from sigmax.cli.help import plain
from sigmax.cli.progress import GO_ON, by_interrupt, complain, quiet_but_first, say, warned
from sigmax.cli.runs import attack, logs, merge, show, verify
from sigmax.cli.train import calibrate, classifier, denoiser, finetune, label, router
from sigmax.errors import RequestError, RunError
from sigmax.version import __version__

app = typer.Typer(
    help="Certified robustness by randomized smoothing. Start with: sigmax demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


train = typer.Typer(help="Train networks for smoothing.", no_args_is_help=True)
for verb in (classifier.classifier, denoiser.denoiser, router.router):
    train.command()(verb)
build = typer.Typer(help="Build a system: a scheme and its networks as one folder.", no_args_is_help=True)
for kind in (smoothed, dual, cascade, multiscale, semi_elastic, memorized, lipschitz, splitting):
    build.command()(kind)


def _version(asked: bool) -> None:
    if asked:
        say(f"sigmax {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[  # by a callback: the function's body runs only after a verb
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


for name, group in (("train", train), ("build", build), ("pipeline", pipeline.app), ("diagnose", diagnose.app)):
    app.add_typer(group, name=name)
preparing = (demo.demo, label.label, label.choose, calibrate.calibrate, finetune.finetune, plan.plan)
certifying = (certify.certify, predict.predict, show.show, verify.verify, attack.attack)
for step in (*preparing, *certifying, report.report, compare.compare, merge.merge, bench.bench):
    app.command()(step)
app.command("import")(logs.import_logs)
app.command("export")(logs.export_run)
plain(app)


def main() -> None:
    """Run a verb; turn the two kinds of error into their exit codes."""
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot print must not end a run
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    quiet_but_first()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a scheduler sends is Ctrl-C: end cleanly
    warnings.showwarning = warned
    try:
        app()
    except BaseException as error:
        if by_interrupt(error):  # where the verb itself had nothing to say
            complain(f"\nInterrupted. Finished files are kept. {GO_ON}", style="yellow")
            sys.exit(130)
        # Of Python, numpy or torch, which may not be there to ask.
        if any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__):
            complain(f"error: out of memory ({error}). Finished files are kept. Use a smaller --batch. {GO_ON}")
            sys.exit(1)
        if not isinstance(error, RequestError | RunError):
            raise
        complain(f"error: {error}", style="red")
        sys.exit(2 if isinstance(error, RequestError) else 1)
