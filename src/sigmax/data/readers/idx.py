"""MNIST and Fashion-MNIST in the idx files they are published in, plain or gzipped.

An idx file is two zero bytes, a byte for the type (8: unsigned byte), a byte for the number of axes, the
length of each axis as a big-endian 32-bit integer, then the values.
"""

import math
import struct
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sigmax.data.dataset import Dataset
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError
from sigmax.files import unzipped

_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_KINDS = {"mnist": ("MNIST/raw", tuple("0123456789")), "fashion": ("FashionMNIST/raw", _CLOTHES)}
_PREFIX = {"train": "train", "test": "t10k"}
_JOINTS = ("-", ".")  # train-images-idx3-ubyte and train-images.idx3-ubyte are both in circulation


@register("mnist", path=True, splits=tuple(_PREFIX))
@register("fashion", path=True, splits=tuple(_PREFIX))
def read(request: DataRequest) -> Dataset:
    """Greyscale digits or pieces of clothing, 60,000 to train on and 10,000 to test on, (1, 28, 28).

    The path is the folder of the files, or the root under which torchvision put them (`MNIST/raw`).
    """
    (home, classes), prefix = _KINDS[request.kind], _PREFIX[request.split]
    expected = f"a folder with {prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte, plain or .gz"
    root = request.location(expected)
    folder = root / home if (root / home).is_dir() else root
    images = read_idx(_find(folder, f"{prefix}-images", 3, expected), axes=3)
    labels = read_idx(_find(folder, f"{prefix}-labels", 1, expected), axes=1)
    return Dataset(request.kind, request.split, images[:, None], labels.astype(np.int64), classes)


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file; it must have `axes` axes and be neither short nor long."""
    data = path.read_bytes()
    data = unzipped(path, data) if path.suffix == ".gz" else data
    magic = bytes((0, 0, 8, axes))
    if data[:4] != magic:
        raise RequestError(
            f"{path} is not an idx file of bytes with {axes} axes: expected it to begin with {magic.hex()}, "
            f"got {data[:4].hex() or 'nothing'}; check that images and labels are not exchanged, or download "
            "it again"
        )
    start = 4 + 4 * axes
    _check_length(path, len(data), at_least=start)
    shape = struct.unpack_from(f">{axes}I", data, offset=4)
    _check_length(path, len(data), at_least=start + math.prod(shape))
    if len(data) > start + math.prod(shape):
        raise RequestError(f"{path} goes on after its {shape} values; it is damaged, download it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _find(folder: Path, stem: str, axes: int, expected: str) -> Path:
    for joint, ending in product(_JOINTS, ("", ".gz")):
        path = folder / f"{stem}{joint}idx{axes}-ubyte{ending}"
        if path.is_file():
            return path
    raise RequestError(f"{folder} holds no {stem}-idx{axes}-ubyte; expected {expected}")


def _check_length(path: Path, length: int, *, at_least: int) -> None:
    if length < at_least:
        raise RequestError(f"{path} is truncated: expected {at_least} bytes, got {length}; download it again")
