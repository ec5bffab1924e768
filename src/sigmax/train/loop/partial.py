"""The state of an unfinished run, on disk after an epoch, and refused by any other run."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from sigmax.errors import RequestError, RunError
from sigmax.files import replacing
from sigmax.request import refuse_other

QUICK = 0.05  # seconds: a state written in less is written after every epoch
SHARE = 0.05  # of the time, which writing others may take


@dataclass(frozen=True)
class Partial:
    """Where a run keeps its state, replaced as a whole after an epoch, and the plan that the state belongs to."""

    path: Path
    plan: Mapping[str, Any]
    _cost: list[float] = field(default_factory=lambda: [0.0, 0.0], compare=False)  # of the last, and when it ended
    _held: list[Mapping[str, Any]] = field(default_factory=list, compare=False)  # of an epoch since, in memory

    def keep(self, state: Callable[[], Mapping[str, Any]], *, last: bool) -> None:
        """Keep the state after an epoch, unless writing would take too much of the time; the last is always kept.

        What is not written is held in memory, for `keep_held`: on a fast GPU an epoch may take no longer than writing.
        """
        seconds, ended = self._cost
        self._held.clear()
        if not last and seconds > QUICK and perf_counter() - ended < seconds / SHARE:
            self._held.append(_copied(state()))
            return
        begun = perf_counter()
        self.save(state())
        self._cost[:] = perf_counter() - begun, perf_counter()

    def keep_held(self) -> None:
        """Keep the state that is only held, if one is: the run ends before its next epoch does."""
        if self._held:
            self.save(self._held.pop())

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep this state, of tensors and plain values, in place of the last."""
        try:
            with replacing(self.path) as draft:
                torch.save({"plan": json.dumps(self.plan), "state": dict(state)}, draft)
        except (OSError, RuntimeError) as error:  # torch turns some failures to write into RuntimeErrors
            raise RunError(
                f"{self.path} could not be written ({error}); an epoch before is safe there: make room and run "
                "the same again to go on"
            ) from error

    def load(self) -> dict[str, Any] | None:
        """The state kept; None when there is none; an error when it is another plan's."""
        if not self.path.exists():
            return None
        try:
            kept = torch.load(self.path, map_location="cpu", weights_only=True)
            plan, state = json.loads(kept["plan"]), dict(kept["state"])
        # A damaged file can fail in any way at all; the advice is the same.
        except Exception as error:
            raise RequestError(f"{self.path} is damaged; delete it to train from the start") from error
        refuse_other(plan, self.plan, f"{self.path} is the unfinished run of another plan")
        return state

    def remove(self) -> None:
        """Forget the state: the run is finished."""
        self.path.unlink(missing_ok=True)


def _copied(state: Any) -> Any:
    """The state as it is now, in the memory of the CPU: the run changes its tensors in place."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        copied = copy.copy(state)  # of its own kind: those of modules also hold the versions of their layers
        copied.update({key: _copied(value) for key, value in state.items()})
        return copied
    return [_copied(value) for value in state] if isinstance(state, list) else state
