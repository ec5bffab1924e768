"""The thresholds that were chosen, and the file that keeps them with what they were chosen for."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.request import refuse_other


class Calibrated(NamedTuple):
    """Confidence thresholds of the levels, in their order, and what is estimated of them at each radius, in %."""

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]  # of the cascade
    envelope: tuple[float, ...]  # of the best of its networks alone

    @property
    def ratio(self) -> tuple[float | None, ...]:
        """Accuracy by envelope; None where no network alone certifies anything."""
        pairs = zip(self.accuracy, self.envelope, strict=True)
        return tuple(accuracy / best if best else None for accuracy, best in pairs)


def write_thresholds(path: Path, found: Calibrated, request: Mapping[str, Any]) -> None:
    """Keep the thresholds with what they were chosen for and the accuracies they are estimated to have."""
    with written_whole(path) as draft:
        kept = {**found._asdict(), "ratio": found.ratio, "request": request}
        draft.write_text(json.dumps(kept, indent=1) + "\n")


def read_thresholds(path: Path, request: Mapping[str, Any] | None = None) -> Calibrated:
    """The thresholds in a file; those of another request than `request` are refused with what differs."""
    try:
        kept = json.loads(path.read_text())
        found = Calibrated(*(tuple(map(float, kept[name])) for name in Calibrated._fields))
        there = dict(kept["request"])
    except OSError as error:
        raise RequestError(f"the thresholds {path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to calibrate again") from error
    if request is not None:
        what = f"{path} holds the thresholds of another request"
        refuse_other(there, json.loads(json.dumps(request)), what, "Delete it to calibrate again")
    return found
