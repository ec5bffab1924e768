"""One piece of a pipeline's work, and what files say about how far it is."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmax.errors import RequestError
from sigmax.jobs.label.labels import read_labels
from sigmax.models.checkpoints.bfloat16 import Store
from sigmax.progress import Watch
from sigmax.records.inputs import Inputs, covers
from sigmax.records.run import read
from sigmax.schemes.scheme import Scheme
from sigmax.systems.folder import HEAD, fingerprint, load
from sigmax.systems.rebuilt import as_stored

Progress = Callable[[str], AbstractContextManager[Watch]]  # a bar for each phase
OnWarning = Callable[[str], None]
ENDINGS = ("", ".partial", ".training", ".metrics.jsonl")  # of what phases write to and beside their files


@dataclass(frozen=True)
class Phase:
    """One piece of work. `depends`: the keys (or whole tables) of the pipeline's file that decide what it leaves."""

    name: str
    leaves: tuple[Path, ...]
    work: Callable[[Watch], object]
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


def saved(scheme: Scheme, folder: Path, store: Store = "fp32") -> None:
    """See that the scheme is in the folder; one that is there already is not written again."""
    scheme = as_stored(scheme, store)
    if not (folder / HEAD).is_file() or fingerprint(load(folder)) != fingerprint(scheme):
        scheme.save(folder, store=store)


def labelled(folder: Path) -> bool:
    """Whether the folder holds finished labels."""
    try:
        read_labels(folder)
    except RequestError:
        return False
    return True


def training_of(system: Path) -> Path:
    """Where fine-tuning to a system keeps its routes and networks."""
    return Path(f"{system}.training")


def fine_tuned(system: Path) -> bool:
    """Whether the system is there, with what shows how it came about."""
    return (system / HEAD).is_file() and training_of(system).is_dir()


def certified(path: Path, inputs: Inputs | None = None) -> bool:
    """Whether the file holds a finished run, and one of all these inputs where some are named."""
    try:
        run = read(path) if path.exists() else None
        return run is not None and run.finished and (inputs is None or covers(run.plan.inputs, inputs))
    except RequestError:  # killed at birth, or damaged: whoever goes on will see
        return False
