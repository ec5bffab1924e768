"""One piece of a pipeline's work."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

Advance = Callable[[int, int], None]  # (done, total)
Progress = Callable[[str], AbstractContextManager[Advance]]  # a bar for each phase
OnWarning = Callable[[str], None]


@dataclass(frozen=True)
class Phase:
    """One piece of work: its name, what it leaves, how to do it or go on with it, and whether it is done."""

    name: str
    leaves: tuple[Path, ...]
    work: Callable[[Advance], object]
    finished: Callable[[], bool]

    @property
    def state(self) -> str:
        """`done`, `begun` or `to do`, from the files alone; `work` finds out whether they are what is asked for."""
        if self.finished():
            return "done"
        traces = [Path(f"{path}{end}") for path in self.leaves for end in ("", ".partial", ".training")]
        return "begun" if any(trace.exists() for trace in traces) else "to do"
