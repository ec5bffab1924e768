"""What the files of a pipeline say about how far it is."""

from pathlib import Path

from sigmax.certify.scheme import Scheme
from sigmax.errors import RequestError
from sigmax.models.halves import Store
from sigmax.records.run import read
from sigmax.system.folder import HEAD, as_stored, fingerprint, load
from sigmax.train.labels import read_labels


def saved(scheme: Scheme, folder: Path, store: Store = "fp32") -> None:
    """See that the scheme is in the folder; one that is there already is not written anew."""
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


def certified(path: Path) -> bool:
    """Whether the file holds a finished run."""
    try:
        return path.exists() and read(path).finished
    except RequestError:  # killed at birth, or damaged: whoever goes on will see
        return False
