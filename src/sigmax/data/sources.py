"""From a source as the user writes it, `kind` or `kind:PATH`, to a data set, and to the inputs that a run takes."""

import numpy as np
from numpy.typing import NDArray

from sigmax.data import readers  # noqa: F401  # registers the sources that come with sigmax
from sigmax.data.dataset import Dataset
from sigmax.data.registry import DataRequest, find
from sigmax.errors import RequestError


def load(
    source: str, split: str = "test", *, size: int | None = None, fit: tuple[int, int, int] | None = None
) -> Dataset:
    """The data set at `source`, complete and checked.

    source  `digits`, `mnist:PATH`, `fashion:PATH`, `cifar10:PATH`, `cifar100:PATH`, `npz:PATH`, `folder:PATH`, or
            one that was added with `register` or by an installed package
    split   the part wanted; a source without parts is taken whole, under whatever name is asked for
    size    for folders: resize and crop every image to a square of this side
    fit     for folders, without a size: the (C, H, W) that a network takes, to which other images are resized
    """
    if size is not None and size < 1:
        raise RequestError(f"the image size must be a positive number of pixels, got {size}; try 224")
    if not split:
        raise RequestError("the split must have a name, got an empty one; ask for train or test")
    kind, _, path = source.partition(":")
    try:
        return find(kind).read(DataRequest(kind, path, split, size, fit))
    except OSError as error:
        raise RequestError(
            f"{source}: its split {split!r} cannot be read ({error}); check the names, and that you may read it"
        ) from error


def select(count: int, *, start: int = 0, skip: int = 1, maximum: int | None = None) -> NDArray[np.int64]:
    """Indices start, start + skip, start + 2 skip, ... below `count`: at most `maximum` of them, and at least one."""
    _require(count >= 1, f"there must be at least 1 input to select from, got {count}; check the data")
    _require(0 <= start < count, f"start must lie in 0..{count - 1}, got {start}; nothing would be selected")
    _require(skip >= 1, f"skip must be at least 1, got {skip}; 1 takes every input, 20 every 20th")
    _require(maximum is None or maximum >= 1, f"max must be at least 1, got {maximum}; omit it for all")
    return np.arange(start, count, skip, dtype=np.int64)[:maximum]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RequestError(message)
