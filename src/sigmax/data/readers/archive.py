"""Images and labels that a user saved with numpy.savez.

    numpy.savez("mine.npz", images=images, labels=labels)                             # one split
    numpy.savez("mine.npz", train_images=..., train_labels=..., test_images=..., test_labels=...)
    numpy.savez("mine.npz", images=images, labels=labels, classes=["cat", "dog"])     # names, if wanted
    numpy.savez("mine.npz", images=images, labels=["cat", "dog", "cat"])              # labels by name
    numpy.savez("mine.npz", images=images)                                            # no labels

Nothing in the file is executed: arrays of Python objects are refused.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.data.dataset import Dataset
from sigmax.data.labels import Classes, numbered
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError
from sigmax.files import RATIO, UNPACKED, refuse_bomb

_COLOURS = (1, 3)  # numbers of channels by which an axis is recognised
_ARRAYS = ("images", "labels", "classes")

Array = NDArray[Any]


@register("npz", path=True)
def read(request: DataRequest) -> Dataset:
    """The split asked for by its name, or the file's only one, called "all".

    Text labels are numbered by `classes`, or by their own names in alphabetical order. Without `classes` there are as
    many classes as the largest label in the file says, named by their numbers.
    """
    path = request.location("an .npz file with the arrays images and labels (labels may be left out)")
    images, labels, classes, split = _read(path, request.split)
    return Dataset(path.stem, split, channels_first(images, str(path)), labels, classes)


def channels_first(images: Array, where: str) -> Array:
    """The images as (N, C, H, W), whichever of the three layouts they came in; channels first where two fit."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in _COLOURS:
        return images
    if images.ndim == 4 and images.shape[3] in _COLOURS:
        return images.transpose(0, 3, 1, 2)
    raise RequestError(
        f"{where}: expected images of shape (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, got "
        f"{images.shape}; reshape them, or build a sigmax.data.Dataset in Python for other channels"
    )


def _read(path: Path, split: str) -> tuple[Array, Array | None, tuple[str, ...], str]:
    if not zipfile.is_zipfile(path):
        raise RequestError(f"{path} is not an .npz file; save images and labels together with numpy.savez")
    try:
        _refuse_bomb(path)
        with np.load(path, allow_pickle=False) as file:
            prefix = _prefix(path, file.files, split)
            labels = _array(file, f"{prefix}labels") if f"{prefix}labels" in file.files else None
            labels, classes = numbered(labels, _classes(path, file), str(path))
            return _array(file, f"{prefix}images"), labels, classes, split if prefix else "all"
    except RequestError:
        raise
    except Exception as error:  # damaged bytes make zip and numpy's header reader raise nearly anything
        raise RequestError(
            f"{path} cannot be read ({error}); save plain arrays with numpy.savez, classes as strings"
        ) from error


def _refuse_bomb(path: Path) -> None:
    """Raise where a member unpacks to far more than the file; no more is read of it than it says."""
    with zipfile.ZipFile(path) as archive:
        largest = max((member.file_size for member in archive.infolist()), default=0)
    refuse_bomb(path, largest, UNPACKED + RATIO * path.stat().st_size)


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
    if f"{prefix}images" not in names:
        raise RequestError(
            f"{path} lacks {prefix}images: expected the arrays {prefix}images and {prefix}labels (labels may be left "
            f"out), got {', '.join(names) or 'none'}; save it again under these names"
        )
    known = {f"{before}{array}" for before in ("", *(f"{name}_" for name in splits)) for array in _ARRAYS}
    other = [name for name in names if name not in known]
    if f"{prefix}labels" not in names and (other or (prefix and "labels" in names)):
        raise RequestError(
            f"{path} lacks {prefix}labels but holds {', '.join(other) or 'labels'}: rename them to {prefix}labels, "
            "or save the images without the rest if they have none"
        )
    return prefix


def _classes(path: Path, file: Any) -> Classes:
    """The names that the file gives its classes, or how many its labels are of, or nothing without labels."""
    if "classes" in file.files:
        return tuple(str(name) for name in _array(file, "classes").astype(str).ravel())
    every = [_array(file, name) for name in file.files if name == "labels" or name.endswith("_labels")]
    every = [labels for labels in every if labels.ndim == 1 and labels.size]
    kinds = {labels.dtype.kind for labels in every}
    if not kinds or not (kinds <= set("SU") or kinds <= set("iu")):
        return None  # nothing to count; what is no label is refused with the data set
    _, classes = numbered(np.concatenate(every), None, str(path))
    return classes
