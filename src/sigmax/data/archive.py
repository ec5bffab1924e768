"""Images and labels that a user saved with numpy.savez.

    numpy.savez("mine.npz", images=images, labels=labels)                             # one split
    numpy.savez("mine.npz", train_images=..., train_labels=..., test_images=..., test_labels=...)
    numpy.savez("mine.npz", images=images, labels=labels, classes=["cat", "dog"])     # names, if wanted

Nothing in the file is executed: arrays of Python objects are refused.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.data.dataset import Dataset
from sigmax.data.request import Request
from sigmax.errors import RequestError

_COLOURS = (1, 3)  # numbers of channels by which an axis is recognised
_MOST_CLASSES = 100_000  # a larger label without class names is a mistake, not a class

Array = NDArray[Any]


def load(request: Request) -> Dataset:
    """The split asked for, or the file's only one.

    A file with any `<split>_images` must hold the split asked for by that name. A file with plain `images`
    and `labels` is a single set, called "all", and is given whichever split is asked for. Images are (N, H, W),
    (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, channels first where both readings fit. Without
    `classes` there are as many classes as the largest label in the file says, named by their numbers.
    """
    request.refuse_size()
    path = request.location("an .npz file with the arrays images and labels")
    images, labels, classes, split = _read(path, request.split)
    return Dataset(
        name=path.stem,
        split=split,
        images=channels_first(images, path),
        labels=labels,
        classes=classes,
    )


def channels_first(images: Array, path: Path) -> Array:
    """The images as (N, C, H, W), whichever of the three layouts they came in."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in _COLOURS:
        return images
    if images.ndim == 4 and images.shape[3] in _COLOURS:
        return images.transpose(0, 3, 1, 2)
    raise RequestError(
        f"{path}: expected images of shape (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, got "
        f"{images.shape}; reshape them, or build a sigmax.data.Dataset in Python for other channels"
    )


def _read(path: Path, split: str) -> tuple[Array, Array, tuple[str, ...], str]:
    if not zipfile.is_zipfile(path):
        raise RequestError(f"{path} is not an .npz file; save images and labels together with numpy.savez")
    try:
        with np.load(path, allow_pickle=False) as file:
            prefix = _prefix(path, file.files, split)
            images, labels = _array(file, f"{prefix}images"), _array(file, f"{prefix}labels")
            return images, labels, _classes(path, file), split if prefix else "all"
    except RequestError:
        raise
    except Exception as error:  # damaged bytes make zip and numpy's header reader raise nearly anything
        raise RequestError(
            f"{path} cannot be read ({error}); save plain arrays with numpy.savez, classes as strings"
        ) from error


def _array(file: Any, name: str) -> Array:
    """The array under `name`; numpy hands out the raw bytes of a member that is no .npy file."""
    array = file[name]
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is not an array that numpy wrote")
    return array


def _prefix(path: Path, names: list[str], split: str) -> str:
    """What stands before `images` and `labels` in the names of the split's arrays."""
    splits = [name.removesuffix("_images") for name in names if name.endswith("_images")]
    if splits and split not in splits:
        raise RequestError(f"{path} has no split {split!r}; ask for one of: {', '.join(splits)}")
    prefix = f"{split}_" if splits else ""
    lacking = [name for name in (f"{prefix}images", f"{prefix}labels") if name not in names]
    if lacking:
        raise RequestError(
            f"{path} lacks {' and '.join(lacking)}: expected the arrays {prefix}images and {prefix}labels, "
            f"got {', '.join(names) or 'none'}; save it again under these names"
        )
    return prefix


def _classes(path: Path, file: Any) -> tuple[str, ...]:
    if "classes" in file.files:
        return tuple(str(name) for name in _array(file, "classes").astype(str).ravel())
    every = [_array(file, name) for name in file.files if name == "labels" or name.endswith("_labels")]
    whole = [labels for labels in every if labels.size and np.issubdtype(labels.dtype, np.integer)]
    largest = max((int(labels.max()) for labels in whole), default=0)
    if largest >= _MOST_CLASSES:
        raise RequestError(
            f"{path}: labels must be class indices counted from 0, but one is {largest}; number the "
            "classes, or name them in the array classes"
        )
    return tuple(str(number) for number in range(largest + 1))
