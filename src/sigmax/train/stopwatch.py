"""How long the steps of a recipe take, kept in a file so that a recipe in several calls is timed as one."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from sigmax.errors import RequestError
from sigmax.files import written_whole

NOTED = 5.0  # seconds between two notes of a step that goes on: what a killed one can lose


class Watch(Protocol):
    """What a step calls with (done, total) as it goes on."""

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""


class Progress(Protocol):
    """Shows how far a step is: `sigmax.cli.progress.progress`, or nothing."""

    def __call__(self, name: str, /) -> AbstractContextManager[Watch]:
        """A function to call with (done, total) while the step goes on."""


class Stopwatch:
    """The seconds of every step by name, in `path`; those of attempts that were cut short count in.

    A step that is done, and whose file is there, is not timed again: to find that out takes time too.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path, self.progress = path, progress
        self._steps: dict[str, dict[str, Any]] = _read(path)

    @property
    def seconds(self) -> Mapping[str, float]:
        """What each step took, in the order they began in."""
        return {name: told["seconds"] for name, told in self._steps.items()}

    def minutes(self, *names: str) -> float:
        """What these steps took together."""
        return sum(self.seconds[name] for name in names) / 60

    @contextmanager
    def step(self, name: str, made: Path) -> Iterator[Watch]:
        """Time what is done within, which leaves the file or folder `made`."""
        before = self._steps.get(name, {"seconds": 0.0, "done": False})
        idle = before["done"] and made.exists()
        begun = noted = time.perf_counter()

        def note(*, done: bool) -> None:
            nonlocal noted
            noted = time.perf_counter()
            self._steps[name] = {"seconds": before["seconds"] + noted - begun, "done": done}
            with written_whole(self.path) as draft:
                draft.write_text(json.dumps(self._steps, indent=1) + "\n")

        with self.progress(name) as shown:

            def watch(done: int, total: int) -> None:
                shown(done, total)
                if not idle and time.perf_counter() - noted > NOTED:
                    note(done=False)

            yield watch
        if not idle:
            note(done=True)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    try:
        told = json.loads(path.read_text())
        return {name: {"seconds": float(of["seconds"]), "done": bool(of["done"])} for name, of in told.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to time the steps anew") from error
