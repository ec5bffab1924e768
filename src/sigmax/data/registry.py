"""The data sources by name. Each reader registers itself; other packages add theirs.

    from sigmax.data import DataRequest, Dataset, register

    @register("satellite", splits=("train", "test"))
    def read(request: DataRequest) -> Dataset: ...

    sigmax.data.load("satellite:~/tiles", "test")

A package makes its reader known to the command line by an entry point of the group `sigmax.data`, whose name is
the source's and whose object is the reader: `satellite = "tiles.sigmax_reader:read"`.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sigmax.config.plugins import imported, plugins
from sigmax.data.dataset import Dataset
from sigmax.errors import RequestError

GROUP = "sigmax.data"
_SOURCES: dict[str, "DataSource"] = {}


@dataclass(frozen=True)
class DataRequest:
    """One call of `load`: the source taken apart at its first colon, the split, and the image size.

    kind   what stands before the colon, the name that the reader is registered under
    path   what stands after it, "" without a colon
    size   side of the square images wanted, or None for the size they have
    fit    without a size: (C, H, W) that a network takes, for sources whose images can be made to fit; or None
    """

    kind: str
    path: str
    split: str
    size: int | None = None
    fit: tuple[int, int, int] | None = None

    @property
    def source(self) -> str:
        """The source as the user wrote it."""
        return f"{self.kind}:{self.path}" if self.path else self.kind

    def location(self, expected: str) -> Path:
        """The path asked for, which exists; `expected` says what should lie there if it does not."""
        if not self.path:
            raise RequestError(f"the source {self.kind} needs a path: write {self.kind}:PATH, where PATH is {expected}")
        try:
            path = Path(self.path).expanduser()
            found = path.exists()
        except (OSError, RuntimeError) as error:  # too long a name, a closed folder, the home of nobody
            raise RequestError(f"{self.source}: no such path can be opened ({error}); expected {expected}") from error
        if not found:
            raise RequestError(f"{self.source}: {path} does not exist; expected {expected}")
        return path


Reader = Callable[[DataRequest], Dataset]


@dataclass(frozen=True)
class DataSource:
    """A reader with what it declares; a request that does not fit is refused before the reader is called.

    path    whether PATH must follow the name (True), must not (False), or may (None)
    splits  the parts that exist; None: the reader decides
    sizes   whether images can be resized; resizing others would change what is certified
    """

    kind: str
    reader: Reader
    path: bool | None = None
    splits: Sequence[str] | None = None
    sizes: bool = False

    @property
    def usage(self) -> str:
        """How a user writes the source."""
        return self.kind if self.path is False else f"{self.kind}:PATH"

    def read(self, request: DataRequest) -> Dataset:
        """The data set asked for."""
        if self.path is False and request.path:
            raise RequestError(f"the source {self.kind} takes no path, got {request.path!r}; write {self.kind} alone")
        if request.size is not None and not self.sizes:
            resizable = ", ".join(name for name, source in _SOURCES.items() if source.sizes)
            raise RequestError(
                f"{request.source}: an image size is only for the source {resizable}, got {request.size}; leave it "
                "out and the images keep their own size"
            )
        if self.splits is not None and request.split not in self.splits:
            raise RequestError(
                f"{request.source}: the splits are {' and '.join(self.splits)}, got {request.split!r}; "
                f"ask for one of them (--split {self.splits[-1]}, or split={self.splits[-1]!r})"
            )
        found: object = self.reader(request)
        if not isinstance(found, Dataset):
            raise RequestError(
                f"{request.source}: the reader registered for {self.kind!r} must return a sigmax.data.Dataset, got "
                f"{type(found).__name__}; sigmax.data.as_dataset makes one of (images, labels)"
            )
        return found


def register(
    kind: str, *, path: bool | None = None, splits: Sequence[str] | None = None, sizes: bool = False
) -> Callable[[Reader], Reader]:
    """Let `load` answer `kind` and `kind:PATH` with the reader that this decorates; see `DataSource` for the options.

    A source may be replaced, except by another package where it comes with sigmax: run files name those.
    """
    if not kind or ":" in kind:
        raise RequestError(f"the name of a data source must have no colon, got {kind!r}; try 'satellite'")

    def add(reader: Reader) -> Reader:
        if kind in _SOURCES and _is_ours(_SOURCES[kind].reader) and not _is_ours(reader):
            raise RequestError(
                f"the data source {kind!r} comes with sigmax and cannot be replaced; choose another name"
            )
        _SOURCES[kind] = DataSource(kind, reader, path, splits, sizes)
        return reader

    return add


def find(kind: str) -> DataSource:
    """The source of that name: registered, or an entry point of an installed package."""
    plugin = plugins(GROUP).get(kind)
    if kind not in _SOURCES and plugin is not None:
        reader = imported(plugin, "data source")
        if kind not in _SOURCES:  # it did not register itself
            register(kind)(reader)
    if kind not in _SOURCES:
        raise RequestError(f"unknown data source {kind!r}{_meant(kind)}; expected one of: {usages()}")
    return _SOURCES[kind]


def usages() -> str:
    """Every known source as a user writes it, for help texts and errors."""
    known = {kind: source.usage for kind, source in _SOURCES.items()}
    return ", ".join(known.get(kind, kind) for kind in sorted({*known, *plugins(GROUP)}))


def _meant(path: str) -> str:
    """Which source was meant where only its path was given, if that can be known."""
    if path.endswith(".npz"):
        return f" (did you mean npz:{path}?)"
    is_folder = "/" in path or os.path.isdir(path)  # noqa: PTH112 (of any text, a path or not, it raises nothing)
    return f" (did you mean folder:{path.rstrip('/')}?)" if is_folder else ""


def _is_ours(reader: Reader) -> bool:
    return getattr(reader, "__module__", "").startswith("sigmax.")
