"""CIFAR-10 and CIFAR-100 as published and unpacked: the Python version, of CIFAR-10 also the binary version.

A binary record is one label byte and 3,072 pixel bytes (red, green and blue planes of 32x32). A Python file is a
pickled dict with the same planes under b"data" and a list of labels; it is read without being run.
"""

from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from sigmax.data.dataset import Dataset
from sigmax.data.readers.pickled import read_pickle
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError

_CLASSES_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLASSES_100 = tuple(
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant "
    "flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man "
    "maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree "
    "plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
    "trout tulip turtle wardrobe whale willow_tree wolf woman worm".split()
)
_FILES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
_VERSIONS_10 = ((".bin", "cifar-10-batches-bin"), ("", "cifar-10-batches-py"))
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


@register("cifar10", path=True, splits=tuple(_FILES))
def read_10(request: DataRequest) -> Dataset:
    """50,000 images to train on or 10,000 to test on, (3, 32, 32), in the published order.

    The path is the folder of the files, or the one in which their folder lies; the binary version is preferred where
    both are there.
    """
    names = _FILES[request.split]
    expected = f"a folder with {names[0]}.bin (binary version) or {names[0]} (Python version) of CIFAR-10, unpacked"
    files = _find(request.location(expected), names, _VERSIONS_10, expected)
    batches = [_binary(path) if path.suffix == ".bin" else _python(path, b"labels", "CIFAR-10") for path in files]
    pixels, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Dataset(request.kind, request.split, pixels.reshape(-1, *_SHAPE), labels, _CLASSES_10)


@register("cifar100", path=True, splits=("train", "test"))
def read_100(request: DataRequest) -> Dataset:
    """As many images in the published order, with the 100 fine labels."""
    expected = f"a folder with the file {request.split} of CIFAR-100 (Python version), unpacked"
    (path,) = _find(request.location(expected), (request.split,), (("", "cifar-100-python"),), expected)
    pixels, labels = _python(path, b"fine_labels", "CIFAR-100")
    return Dataset(request.kind, request.split, pixels.reshape(-1, *_SHAPE), labels, _CLASSES_100)


def _find(root: Path, names: tuple[str, ...], versions: tuple[tuple[str, str], ...], expected: str) -> list[Path]:
    """All files of a split in one version (ending, folder); otherwise says what the most complete version lacks."""
    places = [
        [home / f"{name}{ending}" for name in names] for ending, folder in versions for home in (root, root / folder)
    ]
    lacking = [[path for path in files if not path.is_file()] for files in places]
    best = min(range(len(places)), key=lambda i: len(lacking[i]))
    if lacking[best]:
        missing = ", ".join(path.name for path in lacking[best])
        raise RequestError(f"{lacking[best][0].parent} lacks {missing}; expected {expected}")
    return places[best]


def _binary(path: Path) -> Batch:
    values = np.fromfile(path, np.uint8)
    if not len(values) or len(values) % (1 + _PIXELS):
        raise RequestError(
            f"{path} has {len(values)} bytes; expected whole records of {1 + _PIXELS} bytes: it is truncated "
            "or not CIFAR-10, download it again"
        )
    records = values.reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _python(path: Path, key: bytes, of: str) -> Batch:
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
