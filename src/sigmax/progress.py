"""Progress with an ETA where a person watches: a bar on a terminal or in a notebook, and nothing elsewhere.

Long work takes a `watch` (training: `on_step`), which is called with (done, total). None, the default, is a bar if
standard error is a terminal or this is a Jupyter kernel; in pipes and continuous integration nothing is shown.
`silent` shows nothing anywhere.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Watch = Callable[[int, int], None]  # called with (done, total)
CELL_SECONDS = 0.2  # between two updates of a notebook's cell


class Advance(Protocol):
    """What to call as work goes on, with (done, total)."""

    note: str  # shown beside the bar: how well it goes

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""


def silent(done: int, total: int) -> None:
    """No progress: `watch=sx.silent`, or of training `on_step=sx.silent`."""


@contextmanager
def shown(watch: Watch | None, what: str) -> Iterator[Watch]:
    """The caller's `watch`; where there is none, a bar named `what` if a person watches."""
    if watch is not None:
        yield watch
    elif os.environ.get("RANK", "0") != "0":  # of several processes started together only the first shows anything
        yield silent
    elif in_notebook():
        with cell(what) as advance:
            yield advance
    elif sys.stderr.isatty() and not os.environ.get("CI"):
        from rich.console import Console

        with bar(what, Console(stderr=True)) as advance:
            yield advance
    else:
        yield silent


def counting_on(watch: Watch, before: int, total: int) -> Watch:
    """The same watch for a part of the work: counts on from what is done before it, of all there is."""
    return lambda done, _: watch(before + done, total)


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def bar(what: str, console: "Console") -> Iterator[Advance]:
    """A bar on a terminal."""
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}", markup=False),
    )
    # What is printed meanwhile stands above the bar; but what goes into a file or a pipe must still get there.
    with progress.Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty()) as drawn:
        yield _Bar(drawn, what)


class _Bar:
    """A bar on the terminal; none before the work has begun, since it may be found done."""

    def __init__(self, drawn: "Progress", what: str) -> None:
        self.note = ""
        self._drawn, self._what = drawn, what
        self._task: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._task is None:
            self._task = self._drawn.add_task(self._what, note="")
        self._drawn.update(self._task, completed=done, total=total, note=self.note)


@contextmanager
def cell(what: str) -> Iterator[Advance]:
    """A bar in the output of a notebook's cell. Rich's own would need the package ipywidgets."""
    advance = _Cell(what)
    try:
        yield advance
    finally:
        advance.draw()


class _Cell:
    """A bar in a notebook, redrawn in place a few times a second."""

    def __init__(self, what: str) -> None:
        self.note = ""
        self._what, self._done, self._total, self._before = what, 0, 0, 0
        self._begun = self._drawn = time.monotonic()
        self._handle: Any = None

    def __call__(self, done: int, total: int) -> None:
        if not self._total:
            self._before = done
        self._done, self._total = done, total
        if self._handle is None or time.monotonic() - self._drawn >= CELL_SECONDS:
            self.draw()

    def draw(self) -> None:
        """Show how far it is now; nothing before the work has begun."""
        if not self._total:
            return
        display = import_module("IPython.display").display  # whose types are not known where it is not installed
        self._drawn = time.monotonic()
        content = {"text/html": self._html(), "text/plain": self._text()}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def _html(self) -> str:
        share = 100 * min(1.0, self._done / self._total)
        return (
            '<div style="font-family:monospace">'
            '<span style="display:inline-block;width:12em;height:0.7em;background:#8884;margin-right:0.6em">'
            f'<span style="display:block;width:{share:.1f}%;height:100%;background:#4477aa"></span></span>'
            f"{escape(self._text())}</div>"
        )

    def _text(self) -> str:
        return f"{self._what} {eta(self._done, self._total, self._before, time.monotonic() - self._begun, self.note)}"


def eta(done: int, total: int, before: int, seconds: float, note: str) -> str:
    """How far work is in words: '30/60, about 12 s left'. `before`: done when the clock started."""
    fresh = done - before
    left = f", about {spoken(seconds / fresh * (total - done))} left" if fresh > 0 else ""
    tail = left if done < total else f" in {seconds:.1f} s"
    return f"{done}/{total}{tail}{'; ' if note else ''}{note}"


def spoken(seconds: float) -> str:
    """A duration as one says it: '0.4 s', '12 s', '25 min', '3.4 h'."""
    if 0.001 <= seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < 300:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
