"""What a data set must be before anything is computed from it. Every refusal says where and what to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError

Pixels = NDArray[np.uint8] | NDArray[np.float32]
Indices = Sequence[int] | NDArray[np.integer[Any]]


def checked_images(images: object, where: str, numbers: Indices | None = None) -> Pixels:
    """The images as (N, C, H, W), uint8 or float32 in [0, 1]; wider and narrower floats become float32.

    `numbers` are the indices to call the images by when they are part of a larger set.
    """
    if not isinstance(images, np.ndarray):
        raise RequestError(
            f"{where}: images must be a numpy array or a sigmax.data.LazyImages, got "
            f"{type(images).__name__}; convert them with sigmax.data.as_dataset((images, labels))"
        )
    if images.ndim != 4 or 0 in images.shape:
        raise RequestError(
            f"{where}: images must have shape (N, C, H, W) with no empty axis, got {images.shape}; "
            "greyscale images need C=1, a single image needs N=1"
        )
    if images.dtype == np.uint8:
        return images
    if not np.issubdtype(images.dtype, np.floating):
        raise RequestError(
            f"{where}: images must be uint8 (0 to 255) or float (0 to 1), got {images.dtype}; use "
            "images.astype('uint8') if the values are 0 to 255, else divide by the largest possible value"
        )
    narrow = images.astype(np.float32, copy=False)
    _check_unit_range(narrow, where, range(len(narrow)) if numbers is None else numbers)
    return narrow


def _check_unit_range(images: NDArray[np.float32], where: str, numbers: Indices) -> None:
    # A NaN anywhere makes both extremes NaN, so this also catches what is not finite.
    if images.min() >= 0 and images.max() <= 1:
        return
    flat = images.reshape(len(images), -1)
    outside = ~((flat >= 0) & (flat <= 1))
    row = int(outside.any(axis=1).argmax())
    value = flat[row, outside[row].argmax()]
    raise RequestError(
        f"{where}: float images must lie in [0, 1], but image {numbers[row]} holds {value:g}; " + _remedy(images)
    )


def _remedy(images: NDArray[np.float32]) -> str:
    if not np.isfinite(images).all():
        return "repair or remove the images that are not finite"
    if images.min() < 0:
        return "undo the normalisation, which belongs to the model: sigma is measured on [0, 1] pixels"
    most = images.max()
    if most == 255:
        return "divide by 255, or pass them as uint8"
    return f"divide them by their largest possible value (255 if they are 8-bit; the largest here is {most:g})"


def to_unit(images: Pixels) -> NDArray[np.float32]:
    """Stored pixels on the [0, 1] scale: 8-bit values are divided by 255, floats are there already."""
    if images.dtype == np.uint8:
        return np.divide(images, np.float32(255), dtype=np.float32, order="C")
    return images.astype(np.float32, order="C", copy=False)


def checked_labels(labels: object, images: int, classes: int, where: str) -> NDArray[np.int64]:
    """The labels as int64, one an image, each the index of a class."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise RequestError(
            f"{where}: labels must be one class index an image, got shape {array.shape}; "
            "one-hot rows become indices with labels.argmax(axis=1)"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise RequestError(f"{where}: labels must be integers, got {array.dtype}; {_remedy_of_labels(array)}")
    if len(array) != images:
        raise RequestError(f"{where}: {images} images but {len(array)} labels; give each image exactly one label")
    wrong = np.flatnonzero((array < 0) | (array >= classes))
    if wrong.size:
        raise RequestError(
            f"{where}: labels must lie in 0..{classes - 1} ({classes} classes), but label {wrong[0]} is "
            f"{array[wrong[0]]}; correct the labels or name all classes"
        )
    return array.astype(np.int64)


def _remedy_of_labels(labels: NDArray[Any]) -> str:
    if labels.dtype.kind == "f":
        return "labels.astype('int64') makes whole floats integers"
    if labels.dtype.kind in "SU" and np.char.isdigit(labels).all():
        return "labels.astype('int64') makes digits integers"
    return "sigmax.data.as_dataset((images, labels)) numbers text labels"


def checked_classes(classes: object, where: str, *, labelled: bool) -> tuple[str, ...]:
    """The class names as a tuple of strings, at least one if there are labels; their position is the label."""
    if isinstance(classes, str) or not isinstance(classes, Sequence) or (labelled and not classes):
        raise RequestError(f"{where}: classes must be a non-empty tuple of names, got {classes!r}; name each class")
    for name in classes:
        if not isinstance(name, str):
            raise RequestError(f"{where}: class names must be strings, got {name!r}; use str({name!r})")
    return tuple(classes)


def checked_indices(indices: Indices, count: int, where: str) -> NDArray[np.int64]:
    """The indices as int64, each pointing at one of `count` images; none counts from the end."""
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise RequestError(
            f"{where}: indices must be a flat list of integers, got {array.dtype} of shape {array.shape}; "
            "a single image is [i], a boolean mask is numpy.flatnonzero(mask)"
        )
    wrong = array[(array < 0) | (array >= count)]
    if wrong.size:
        raise RequestError(f"{where}: index {wrong[0]} is outside 0..{count - 1}; choose among the {count} images")
    return array.astype(np.int64)
