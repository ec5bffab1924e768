"""CIFAR-10 as published: the binary version or the Python version, unpacked.

A binary record is one label byte and 3,072 pixel bytes (red, green and blue planes of 32x32). A Python batch
is a pickled dict with the same planes under b"data" and a list of labels under b"labels".
"""

from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from sigmax.data.dataset import Dataset
from sigmax.data.readers.pickled import read_pickle
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FILES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


@register("cifar10", path=True, splits=tuple(_FILES))
def read(request: DataRequest) -> Dataset:
    """50,000 images to train on or 10,000 to test on, (3, 32, 32), in the published order.

    The path is the folder of the files, or the one in which `cifar-10-batches-bin` or `cifar-10-batches-py`
    lies; the binary version is preferred where both are there. Pickles are read without running them.
    """
    names = _FILES[request.split]
    expected = f"a folder with {names[0]}.bin (binary version) or {names[0]} (Python version) of CIFAR-10, unpacked"
    batches = [_read(path) for path in _find(request.location(expected), names, expected)]
    return Dataset(
        name=request.kind,
        split=request.split,
        images=np.concatenate([pixels for pixels, _ in batches]).reshape(-1, *SHAPE),
        labels=np.concatenate([labels for _, labels in batches]),
        classes=_CLASSES,
    )


def _find(root: Path, names: tuple[str, ...], expected: str) -> list[Path]:
    """All files of a split in one version; otherwise says what the most complete version lacks."""
    versions = [
        [home / f"{name}{ending}" for name in names]
        for ending, folder in ((".bin", "cifar-10-batches-bin"), ("", "cifar-10-batches-py"))
        for home in (root, root / folder)
    ]
    lacking = [[path for path in version if not path.is_file()] for version in versions]
    best = min(range(len(versions)), key=lambda i: len(lacking[i]))
    if lacking[best]:
        missing = ", ".join(path.name for path in lacking[best])
        raise RequestError(f"{lacking[best][0].parent} lacks {missing}; expected {expected}")
    return versions[best]


def _read(path: Path) -> Batch:
    return _read_binary(path) if path.suffix == ".bin" else read_python(path, key=b"labels", of="CIFAR-10")


def _read_binary(path: Path) -> Batch:
    values = np.fromfile(path, np.uint8)
    if not len(values) or len(values) % (1 + _PIXELS):
        raise RequestError(
            f"{path} has {len(values)} bytes; expected whole records of {1 + _PIXELS} bytes: it is truncated "
            "or not CIFAR-10, download it again"
        )
    records = values.reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def read_python(path: Path, *, key: bytes, of: str) -> Batch:
    """The pixels and the labels under `key` of one pickled batch, which is not run."""
    content = read_pickle(path)
    batch = content if isinstance(content, dict) else {}
    pixels, labels = batch.get(b"data"), batch.get(key)
    if not _are_planes(pixels) or not _are_integers(labels) or len(pixels) != len(labels):
        raise RequestError(
            f"{path} is not a {of} batch: expected b'data', a uint8 array of rows of {_PIXELS} pixels, "
            f"and {key!r}, as many integers; download it again"
        )
    return pixels, np.array(labels, np.int64)


def _are_planes(value: object) -> TypeGuard[NDArray[np.uint8]]:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == _PIXELS


def _are_integers(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(isinstance(label, int) and 0 <= label < 256 for label in value)
