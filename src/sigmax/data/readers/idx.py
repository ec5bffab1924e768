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

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_PREFIX = {"train": "train", "test": "t10k"}
_JOINTS = ("-", ".")  # train-images-idx3-ubyte and train-images.idx3-ubyte are both in circulation


@register("mnist", path=True, splits=tuple(_PREFIX))
def read_mnist(request: DataRequest) -> Dataset:
    """MNIST: greyscale digits, 60,000 to train on and 10,000 to test on, (1, 28, 28).

    The path is the folder of the files, or the root under which torchvision put them (`MNIST/raw`).
    """
    return _read(request, _DIGITS, "MNIST/raw")


@register("fashion", path=True, splits=tuple(_PREFIX))
def read_fashion(request: DataRequest) -> Dataset:
    """Fashion-MNIST: greyscale pieces of clothing, in MNIST's format and numbers.

    The path is the folder of the files, or the root under which torchvision put them (`FashionMNIST/raw`).
    """
    return _read(request, _CLOTHES, "FashionMNIST/raw")


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file; it must have `axes` axes and be neither short nor long."""
    data = _bytes(path)
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


def _read(request: DataRequest, classes: tuple[str, ...], home: str) -> Dataset:
    prefix = _PREFIX[request.split]
    expected = f"a folder with {prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte, plain or .gz"
    root = request.location(expected)
    folder = root / home if (root / home).is_dir() else root
    images = _find(folder, f"{prefix}-images", 3, expected)
    labels = _find(folder, f"{prefix}-labels", 1, expected)
    return Dataset(
        name=request.kind,
        split=request.split,
        images=read_idx(images, axes=3)[:, None],
        labels=read_idx(labels, axes=1).astype(np.int64),
        classes=classes,
    )


def _find(folder: Path, stem: str, axes: int, expected: str) -> Path:
    for joint, ending in product(_JOINTS, ("", ".gz")):
        path = folder / f"{stem}{joint}idx{axes}-ubyte{ending}"
        if path.is_file():
            return path
    raise RequestError(f"{folder} holds no {stem}-idx{axes}-ubyte; expected {expected}")


def _check_length(path: Path, length: int, *, at_least: int) -> None:
    if length < at_least:
        raise RequestError(f"{path} is truncated: expected {at_least} bytes, got {length}; download it again")


def _bytes(path: Path) -> bytes:
    content = path.read_bytes()
    return unzipped(path, content) if path.suffix == ".gz" else content
