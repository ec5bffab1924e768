"""One piece of a pipeline's work."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Advance = Callable[[int, int], None]  # (done, total)
Progress = Callable[[str], AbstractContextManager[Advance]]  # a bar for each phase
OnWarning = Callable[[str], None]
ENDINGS = ("", ".partial", ".training", ".metrics.jsonl")  # of what phases write to and beside their files


@dataclass(frozen=True)
class Phase:
    """One piece of work: its name, what it leaves, how to do it or go on with it, and whether it is done.

    `depends`: the keys of the pipeline's file that decide what it leaves; a table's name stands for all of its keys.
    """

    name: str
    leaves: tuple[Path, ...]
    work: Callable[[Advance], object]
    finished: Callable[[], bool]
    depends: tuple[str, ...]

    @property
    def state(self) -> str:
        """`done`, `begun` or `to do`, from the files alone; `work` finds out whether they are what is asked for."""
        if self.finished():
            return "done"
        return "begun" if self.traces else "to do"

    @property
    def traces(self) -> list[Path]:
        """What it left so far, but for the metrics of trainings, which say nothing of how far it is."""
        return _existing(self.leaves, "", ".partial", ".training")

    @property
    def files(self) -> list[Path]:
        """All that it left so far."""
        return _existing(self.leaves, *ENDINGS)

    def files_in(self, folder: Path, out: Path) -> list[Path]:
        """What it left, where that is in another folder than the pipeline's, `out`."""
        return _existing([folder / path.relative_to(out) for path in self.leaves], *ENDINGS)

    def request(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """The part of all keys that it depends on."""
        return _part(whole, self.depends)


def _existing(paths: Iterable[Path], *endings: str) -> list[Path]:
    found = [Path(f"{path}{ending}") for path in paths for ending in endings]
    return [path for path in found if path.exists()]


def _part(table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        below = tuple(own.removeprefix(f"{key}.") for own in keys if own.startswith(f"{key}."))
        if key in keys:
            found[key] = value
        elif below and isinstance(value, Mapping):
            found[key] = _part(value, below)
    return found
