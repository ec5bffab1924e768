"""Inputs that could not be certified: a report beside the run file, never a record in it.

It is for the reader alone; the next attempt at the run tries the inputs again and replaces it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sigmax.files import written_whole


@dataclass(frozen=True)
class FailedInput:
    """An input, the error of its last attempt with its trace, and where it was attempted."""

    index: int
    error: str
    trace: str
    worker: str


def failed_path(run: Path) -> Path:
    """Where the report of a run file lies."""
    return run.with_name(f"{run.name}.failed.json")


def keep_failed(run: Path, failed: Sequence[FailedInput]) -> Path:
    """Write the report; nothing where nothing failed."""
    path = failed_path(run)
    if failed:
        with written_whole(path) as draft:
            draft.write_text(json.dumps([asdict(one) for one in failed], indent=1))
    return path


def forget_failed(run: Path) -> None:
    """Remove the report: every input is certified now."""
    failed_path(run).unlink(missing_ok=True)


def failed_inputs(run: Path) -> list[int]:
    """The inputs that the report names; none where there is none, or it cannot be read."""
    try:
        listed = json.loads(failed_path(run).read_text())
        return sorted(int(one["index"]) for one in listed)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
