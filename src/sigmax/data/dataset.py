"""A set of images, with labels or without, checked once when built, with pixels in [0, 1] and a fingerprint."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sigmax.data.checks import (
    Indices,
    Pixels,
    checked_classes,
    checked_images,
    checked_indices,
    checked_labels,
    to_unit,
)
from sigmax.data.pictures import ImageFiles
from sigmax.errors import RequestError

_HASH_BLOCK = 1024  # images turned to float32 at a time while hashing; bounds the memory, not the result


@runtime_checkable
class LazyImages(Protocol):
    """Images read when asked for, so that a set larger than memory can still be certified."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W), the same for every image."""

    def __len__(self) -> int: ...

    def read(self, indices: NDArray[np.int64]) -> Pixels:
        """The images at `indices`, (n, C, H, W), uint8 or float32 in [0, 1]."""

    def take(self, indices: NDArray[np.int64]) -> "LazyImages":
        """The same source holding only the images at `indices`, in that order."""

    def content(self) -> Iterator[bytes]:
        """Bytes that change whenever a pixel may change; they go into the fingerprint."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N images of one shape, each with a label or none of them; what is wrong with them is said when it is built.

    images   (N, C, H, W), uint8 as stored (0 to 255) or float32 in [0, 1]; or a `LazyImages`
    labels   (N,) int64, an index into `classes`; None where nothing is known of the images
    classes  the names of the classes; without labels it may be empty

    The arrays are held read-only, because the fingerprint speaks of them.
    """

    name: str
    split: str
    images: Pixels | LazyImages
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        where = self._title
        images = self.images
        if not isinstance(images, LazyImages):
            images = _read_only(checked_images(images, where))
        elif len(images) == 0:
            raise RequestError(f"{where}: there are no images; a data set needs at least one")
        classes = checked_classes(self.classes, where, labelled=self.labelled)
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "classes", classes)
        if self.labels is not None:
            labels = checked_labels(self.labels, len(images), len(classes), where)
            object.__setattr__(self, "labels", _read_only(labels))

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        known = f"{len(self.classes)} classes" if self.labelled else "no labels"
        return f"Dataset({self._title}: {len(self)} images {self.shape}, {known})"

    @property
    def labelled(self) -> bool:
        """Whether the true class of every image is known."""
        return self.labels is not None

    def needed_labels(self, purpose: str) -> NDArray[np.int64]:
        """The labels, for a purpose that cannot do without; refused where there are none."""
        if self.labels is None:
            raise RequestError(
                f"{self._title} has no labels, which {purpose} needs; give data with labels, such as an npz file with "
                "the array labels or a folder with one folder a class"
            )
        return self.labels

    def labels_at(self, indices: Indices) -> list[int | None]:
        """The label of each of these images, None where there is none."""
        chosen = checked_indices(indices, len(self), self._title)
        return [None] * len(chosen) if self.labels is None else self.labels[chosen].tolist()

    def check_readable(self) -> None:
        """Raise unless every image can be read; of image files all that cannot are named."""
        for _ in self._content():
            pass

    def files_at(self, indices: Indices) -> list[str] | None:
        """The file of each of these images, with its class folder if it has one; None where they are no image files."""
        chosen = checked_indices(indices, len(self), self._title)
        if not isinstance(self.images, ImageFiles):
            return None
        files = [self.images.files[index] for index in chosen]
        return [f"{file.parent.name}/{file.name}" if self.labelled else file.name for file in files]

    def class_name(self, label: int | None) -> str:
        """What a class is called; its number where it has no name, "-" where there is no class."""
        if label is None:
            return "-"
        return self.classes[label] if label < len(self.classes) else str(label)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        channels, height, width = self.images.shape[-3:]
        return channels, height, width

    def pixels(self, indices: Indices) -> NDArray[np.float32]:
        """The images at `indices` as float32, (n, C, H, W) in [0, 1], in the order asked for."""
        chosen = checked_indices(indices, len(self), self._title)
        if isinstance(self.images, np.ndarray):
            return to_unit(self.images[chosen])
        if chosen.size == 0:
            return np.zeros((0, *self.shape), np.float32)
        return self._read(self.images, chosen)

    def take(self, indices: Indices) -> "Dataset":
        """The images at `indices` as a data set of their own, with the same classes."""
        chosen = checked_indices(indices, len(self), self._title)
        images = self.images[chosen] if isinstance(self.images, np.ndarray) else self.images.take(chosen)
        return replace(self, images=images, labels=None if self.labels is None else self.labels[chosen])

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that identify shape, labels and pixels, in their order.

        The same pixels in another container have the same fingerprint: it is taken over what `pixels` returns, of lazy
        images over their `content`. Names of the set, of the split, of the classes and of files do not count.
        """
        digest = sha256(f"sigmax data 1 {len(self)} {self.shape}".encode())
        digest.update(b"no labels" if self.labels is None else self.labels.astype("<i8").tobytes())
        for part in self._content():
            digest.update(part)
        return digest.hexdigest()[:32]

    @property
    def _title(self) -> str:
        return f"{self.name} {self.split}"

    def _content(self) -> Iterator[bytes]:
        if not isinstance(self.images, np.ndarray):
            yield from self.images.content()
            return
        for start in range(0, len(self), _HASH_BLOCK):
            yield to_unit(self.images[start : start + _HASH_BLOCK]).astype("<f4", copy=False).tobytes()

    def _read(self, source: LazyImages, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        block = to_unit(checked_images(source.read(indices), self._title, indices))
        if block.shape != (len(indices), *self.shape):
            raise RequestError(
                f"{self._title}: the image source was asked for {len(indices)} images of shape {self.shape} "
                f"and returned {block.shape}; correct its read()"
            )
        return block


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
