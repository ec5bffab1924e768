"""What the commands print: text, and progress with an ETA: a bar on a terminal, a line now and then in a log file."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from sigmax.progress import Advance, bar, eta

if TYPE_CHECKING:
    from sigmax.data import Dataset
    from sigmax.schemes.scheme import Scheme

console = Console()
errors = Console(stderr=True)


def quiet_but_first() -> None:
    """Of several processes started together only the first prints: they would all print the same."""
    console.quiet = errors.quiet = os.environ.get("RANK", "0") != "0"


STARTS_OVER = "The same command starts over."  # what repeating does where nothing is kept
LOG_SECONDS = 15.0  # between two lines where there is no terminal


def say(text: str, style: str | None = None) -> None:
    """Plain text on standard output; long lines are left whole so that paths can be copied."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def complain(text: str, style: str | None = None) -> None:
    """The same on standard error."""
    errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """What will not end well, in yellow."""
    complain(f"warning: {text}", style="yellow")


def warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """A warning of the library as a line of this command line; of other libraries with the place it comes from."""
    ours = "sigmax" in Path(filename).parts
    warn(f"{message}" + ("" if ours else f" ({category.__name__}, {filename}:{lineno})"))


def warn_of_noise(sigma: float) -> None:
    """A warning where the noise hides every image: sigma is in pixels of [0, 1]."""
    from sigmax.rules.checks import too_much_noise

    warning = too_much_noise(sigma)
    if warning:
        warn(warning)


def note_fewer(taken: int, maximum: int | None, data: str) -> None:
    """A note where there are fewer inputs than asked for."""
    if maximum is not None and taken < maximum:
        complain(f"note: --max is {maximum:,}, and {data} has {taken:,} such inputs; all of them are taken")


def note_training_data(scheme: "Scheme", datasets: "Iterable[Dataset]", consequence: str) -> None:
    """A note where a network of the system was trained on one of these data sets, as a whole."""
    import torch

    from sigmax import models

    networks = [voter.model for voter in scheme.voters.values() if isinstance(voter.model, torch.nn.Module)]
    described = [models.describe(module) for network in networks for module in network.modules()]
    trained_on = {d.notes.get("training", {}).get("data", {}).get("fingerprint") for d in described if d} - {None}
    if trained_on and any(dataset.fingerprint in trained_on for dataset in datasets):
        complain(f"note: these are images the system was trained on; {consequence}", style="yellow")


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A function to call with (done, total) as work goes on."""
    if console.is_terminal:
        with bar(what, console) as advance:
            yield advance
    else:
        yield _Lines(what)


class _Lines:
    """Progress as plain lines: the last one always, others at most every LOG_SECONDS."""

    def __init__(self, what: str) -> None:
        self.note = ""
        self.what = what
        self.begun = self.said = time.monotonic()
        self.first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = done
            if done > 1:  # training reports after its first step, the others before
                self._print(f"going on, {done} of {total} done before")
        if done < total and now - self.said < LOG_SECONDS:
            return
        self.said = now
        self._print(eta(done, total, self.first, now - self.begun, self.note))

    def _print(self, text: str) -> None:
        if not console.quiet:
            print(f"{self.what}: {text}", flush=True)


GO_ON = "Run the same command again to go on."


@contextmanager
def resumable(kept: str, repeated: str = GO_ON) -> Iterator[None]:
    """End cleanly on Ctrl-C, and say what is kept and what repeating the command does."""
    try:
        yield
    except BaseException as error:
        if not by_interrupt(error):
            raise
        complain(f"\nInterrupted. {kept} {repeated}", style="yellow")
        raise typer.Exit(130) from None


def by_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: files that are closed half-written may raise errors of their own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None
