"""What the files of a pipeline say about how far it is."""

from pathlib import Path

from sigmax.errors import RequestError
from sigmax.jobs.label.labels import read_labels
from sigmax.models.checkpoints.bfloat16 import Store
from sigmax.records.inputs import Inputs, covers
from sigmax.records.run import read
from sigmax.schemes.scheme import Scheme
from sigmax.systems.folder import HEAD, fingerprint, load
from sigmax.systems.rebuilt import as_stored


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
