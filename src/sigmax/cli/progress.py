"""Progress with an ETA: a bar on a terminal, a line now and then in a log file."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

console = Console()
errors = Console(stderr=True)


def quiet_but_first() -> None:
    """Of several processes started together only the first speaks: they would all say the same."""
    console.quiet = errors.quiet = os.environ.get("RANK", "0") != "0"


STARTS_OVER = "The same command starts over."  # what repeating does where nothing is kept
LOG_SECONDS = 15.0  # between two lines where there is no terminal


def say(text: str, style: str | None = None) -> None:
    """Plain words on standard output; long lines are left whole so that paths can be copied."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def complain(text: str, style: str | None = None) -> None:
    """The same on standard error."""
    errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def warn_of_noise(sigma: float) -> None:
    """A warning where the noise drowns every image: it was hardly meant in pixels of [0, 1]."""
    from sigmax.certify.checks import too_much_noise

    warning = too_much_noise(sigma)
    if warning:
        complain(f"warning: {warning}", style="yellow")


class Advance(Protocol):
    """What to call as work goes on, with (done, total)."""

    note: str  # shown beside the bar: how well it goes

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""


class _Bar:
    """A bar on the terminal."""

    def __init__(self, bar: Progress, what: str) -> None:
        self.note = ""
        self._bar = bar
        self._task = bar.add_task(what, total=None, note="")

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total, note=self.note)


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A function to call with (done, total) as work goes on."""
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, console=console) as bar:
            yield _Bar(bar, what)
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
            if done > 1:  # training speaks up after its first step, the others before
                self._print(f"going on, {done} of {total} done before")
        if done < total and now - self.said < LOG_SECONDS:
            return
        self.said = now
        fresh = done - self.first
        left = f", about {(now - self.begun) / fresh * (total - done):.0f} s left" if fresh else ""
        tail = left if done < total else f" in {now - self.begun:.1f} s"
        self._print(f"{done}/{total}{tail}{'; ' if self.note else ''}{self.note}")

    def _print(self, text: str) -> None:
        if not console.quiet:
            print(f"{self.what}: {text}", flush=True)


@contextmanager
def resumable(kept: str, repeated: str = "Run the same command again to go on.") -> Iterator[None]:
    """Ends cleanly on Ctrl-C, and says what is kept and what repeating the command does."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"\nInterrupted. {kept} {repeated}", style="yellow")
        raise typer.Exit(130) from None
