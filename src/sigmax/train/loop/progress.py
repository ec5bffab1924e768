"""How far a run is: what its callbacks get, and the metrics file that it leaves."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sigmax.files import lock, unlock


@dataclass(frozen=True)
class EpochReport:
    """One finished epoch; a line of the metrics file."""

    epoch: int  # from 1
    epochs: int  # how many there will be
    loss: float  # mean over the epoch's inputs
    accuracy: float  # share of the epoch's noisy training inputs classified right, as the model was then
    lr: float  # learning rate of the epoch's last step
    seconds: float  # time the epoch took, validation included
    validation: Mapping[str, Any] = field(default_factory=dict)  # what the run's `validate` found, plain values
    images: int = 0  # trained on in the epoch, noisy copies not counted

    @property
    def throughput(self) -> float:
        """Images a second, over all that the epoch did."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    def line(self) -> str:
        """The epoch in a few words, for a progress line."""
        text = f"epoch {self.epoch}/{self.epochs}: loss {self.loss:.3g}, accuracy {self.accuracy:.1%}"
        if "smoothed" in self.validation:
            text += f" (held out {self.validation['smoothed']:.1%} when smoothed)"
        return f"{text}, {self.throughput:,.0f} images/s"


OnEpoch = Callable[[EpochReport], None]
OnStep = Callable[[int, int], None]  # steps done and steps in all
OnResume = Callable[[Sequence[EpochReport]], None]  # the epochs done before; none at a fresh start


@contextmanager
def metrics_file(path: Path) -> Iterator[TextIO]:
    """The run's metrics file, open to append to; while it is, no other run can train to the same output."""
    held = lock(path, held=f"another run is training here ({path} is locked); wait for it to end")
    try:
        with path.open("a", encoding="utf-8") as file:
            yield file
    finally:
        unlock(held)


def rewrite(file: TextIO, reports: Iterable[EpochReport]) -> None:
    """Make the file hold these epochs alone: a killed run may have left one that was not saved."""
    file.truncate(0)
    for report in reports:
        append(file, report)


def append(file: TextIO, report: EpochReport) -> None:
    """Add one line, whole, where another program can see it at once."""
    file.write(json.dumps(asdict(report)) + "\n")
    file.flush()


def metrics_path(out: Path) -> Path:
    """Where the metrics of the run that makes the checkpoint `out` are."""
    return Path(f"{out}.metrics.jsonl")


def last_report(out: Path) -> EpochReport | None:
    """The last epoch of the run that made the checkpoint `out`; None where that is not known."""
    try:
        *_, line = metrics_path(out).read_text(encoding="utf-8").splitlines()
        return EpochReport(**json.loads(line))
    except (OSError, ValueError, TypeError):  # it is only for display: whoever lost it can do without
        return None
