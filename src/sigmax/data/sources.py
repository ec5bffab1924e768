"""From a source as the user writes it, `kind` or `kind:PATH`, to a data set.

A loader takes a `Request` and returns a `Dataset`. Those below come with the library; more can be added:

    def satellite(request: Request) -> Dataset: ...

    sigmax.data.register("satellite", satellite)
    sigmax.data.load("satellite:~/tiles", "test")
"""

from collections.abc import Callable

from sigmax.data import archive, cifar10, digits, folder, idx
from sigmax.data.dataset import Dataset
from sigmax.data.request import Request
from sigmax.errors import RequestError

Loader = Callable[[Request], Dataset]

_BUILT_IN: dict[str, Loader] = {
    "digits": digits.load,
    "mnist": idx.load_mnist,
    "fashion": idx.load_fashion,
    "cifar10": cifar10.load,
    "npz": archive.load,
    "folder": folder.load,
}
_ADDED: dict[str, Loader] = {}


def load(source: str, split: str = "test", *, size: int | None = None) -> Dataset:
    """The data set at `source`, complete and checked.

    source  `digits`, `mnist:PATH`, `fashion:PATH`, `cifar10:PATH`, `npz:PATH`, `folder:PATH`, or a kind added
            with `register`
    split   the part wanted; a source without parts (an npz with plain `images`, a folder of class folders) is
            taken whole, under whatever name is asked for
    size    for folders: resize and crop every image to a square of this side
    """
    if size is not None and size < 1:
        raise RequestError(f"the image size must be a positive number of pixels, got {size}; try 224")
    if not split:
        raise RequestError("the split must have a name, got an empty one; ask for train or test")
    kind, _, path = source.partition(":")
    loader = _loader(kind, source)
    try:
        return loader(Request(kind, path, split, size))
    except OSError as error:
        raise RequestError(
            f"{source}: its split {split!r} cannot be read ({error}); check the names, and that you may read it"
        ) from error


def register(kind: str, loader: Loader) -> None:
    """Let `load` answer `kind` and `kind:PATH` with `loader`.

    A kind added before is replaced; those of the library are not, because runs already name them.
    """
    if not kind or ":" in kind:
        raise RequestError(f"a kind of source must be a name without a colon, got {kind!r}; try 'satellite'")
    if kind in _BUILT_IN:
        raise RequestError(f"the kind {kind!r} comes with sigmax and cannot be replaced; choose another name")
    _ADDED[kind] = loader


def _loader(kind: str, source: str) -> Loader:
    loader = _BUILT_IN.get(kind) or _ADDED.get(kind)
    if loader is None:
        known = ["digits", *(f"{name}:PATH" for name in _BUILT_IN if name != "digits"), *sorted(_ADDED)]
        raise RequestError(f"unknown data source {source!r}; expected one of: {', '.join(known)}")
    return loader
