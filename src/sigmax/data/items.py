"""Data sets of other libraries, read item by item: anything with a length whose items are images, with labels or not.

Torch is not imported here. Its tensors are recognised where torch has been imported already, and turned to numpy.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sigmax.data.checks import Pixels, checked_images, to_unit
from sigmax.data.pictures import is_deep
from sigmax.errors import RequestError

IMAGE_KEYS = ("image", "img", "images")
LABEL_KEYS = ("label", "labels")
_COLOURS = (1, 3)
_BLOCK = 64  # images read at a time for the fingerprint
LAYOUTS = "(H, W), (C, H, W) or (H, W, C) with 1 or 3 channels, channels first where both fit"


class Indexed(Protocol):
    """A map-style data set, as torch calls it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class ItemImages:
    """The images of a map-style data set, read when asked for; a `LazyImages`.

    Once the fingerprint is known, an image that is not what it was is refused: a data set that changes its images at
    random would be certified on others than its run names.
    """

    source: Indexed
    indices: NDArray[np.int64]
    shape: tuple[int, int, int]
    where: str
    seen: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)  # digests by index

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, indices: NDArray[np.int64]) -> Pixels:
        """The images at `indices`: (n, C, H, W), uint8 where all of them are, else float32."""
        images = [self._one(int(self.indices[place])) for place in indices]
        if len({image.dtype for image in images}) > 1:
            images = [to_unit(image) for image in images]
        return np.stack(images)

    def take(self, indices: NDArray[np.int64]) -> "ItemImages":
        """The same source with only these images."""
        return replace(self, indices=self.indices[indices])

    def content(self) -> Iterator[bytes]:
        """The pixels as float32, so that the same pixels in an array have the same fingerprint."""
        for start in range(0, len(self), _BLOCK):
            places = np.arange(start, min(start + _BLOCK, len(self)))
            block = checked_images(self.read(places), self.where, self.indices[places])
            yield to_unit(block).astype("<f4", copy=False).tobytes()

    def _one(self, index: int) -> NDArray[Any]:
        image = image_of(item(self.source, index, self.where)[0], f"{self.where}, image {index}", self.shape)
        if image.shape != self.shape:
            raise RequestError(
                f"{self.where}: image {index} has shape {image.shape}, but the first one {self.shape} (C, H, W); "
                "resize them in the data set's transform"
            )
        digest = blake2b(np.ascontiguousarray(image).tobytes(), digest_size=8).digest()
        if self.seen.setdefault(index, digest) != digest:
            raise RequestError(
                f"{self.where}: image {index} is not the same each time it is read; leave random transforms out, since "
                "a run names the images it certifies"
            )
        return image


def images_of(source: Indexed, where: str) -> ItemImages:
    """The images of a map-style data set, of which the first is read."""
    if not len(source):
        raise RequestError(f"{where}: there are no images; a data set needs at least one")
    first = image_of(item(source, 0, where)[0], f"{where}, image 0")
    channels, height, width = first.shape
    images = ItemImages(source, np.arange(len(source)), (channels, height, width), where)
    checked_images(images.read(np.zeros(2, np.int64)), where)  # twice: a random transform is noticed at once
    return images


def labels_of(source: Indexed, where: str) -> list[Any] | None:
    """The labels as they are, for which every item is read once; None where no item has one."""
    labels = [label_of(item(source, index, where)[1]) for index in range(len(source))]
    unknown = sum(label is None for label in labels)
    if unknown and unknown < len(labels):
        missing = next(index for index, label in enumerate(labels) if label is None)
        raise RequestError(f"{where}: item {missing} has no label, but others have; give every item one, or none")
    return None if unknown else labels


def item(source: Indexed, index: int, where: str) -> tuple[Any, Any]:
    """The image and the label at an index; what the data set raises is quoted."""
    try:
        found = source[index]
    except Exception as error:  # it runs code of others
        raise RequestError(
            f"{where}: item {index} cannot be read ({type(error).__name__}: {error}); expected a data set with items 0 "
            f"to {len(source) - 1}"
        ) from error
    return _taken_apart(found, where)


def _taken_apart(item: Any, where: str) -> tuple[Any, Any]:
    """An item is an image, (image,), (image, label), or a mapping with such keys."""
    if isinstance(item, Mapping):
        image = [item[key] for key in IMAGE_KEYS if key in item]
        label = [item[key] for key in LABEL_KEYS if key in item]
        if len(image) == 1 and len(label) < 2:
            return image[0], label[0] if label else None
    elif isinstance(item, tuple | list):
        if len(item) in (1, 2):
            return item[0], item[1] if len(item) == 2 else None
    elif is_image(item):
        return item, None
    got = f"keys {', '.join(map(str, item))}" if isinstance(item, Mapping) else type(item).__name__
    got += f" of {len(item)}" if isinstance(item, tuple | list) else ""
    raise RequestError(
        f"{where}: expected items that are an image, (image, label), or a dict with the keys "
        f"{' or '.join(IMAGE_KEYS)} and {' or '.join(LABEL_KEYS)}; got {got}. Wrap the data set so that it returns "
        "(image, label)"
    )


def image_of(value: Any, where: str, shape: tuple[int, int, int] | None = None) -> NDArray[Any]:
    """One image as (C, H, W), uint8 or float32; `shape`: of the others, by which a picture is grey or coloured."""
    if is_picture(value):
        return _of_picture(value, where, shape)
    array = array_of(value)
    if array.ndim == 2:
        array = array[None]
    elif array.ndim == 3 and array.shape[0] not in _COLOURS and array.shape[2] in _COLOURS:
        array = array.transpose(2, 0, 1)
    if array.ndim != 3 or array.shape[0] not in _COLOURS:
        raise RequestError(f"{where}: expected an image of shape {LAYOUTS}; got {array.shape}; transpose it")
    return array if array.dtype == np.uint8 or array.dtype.kind != "f" else array.astype(np.float32, copy=False)


def _of_picture(picture: Any, where: str, shape: tuple[int, int, int] | None) -> NDArray[np.uint8]:
    if is_deep(picture):
        raise RequestError(f"{where} has more than 8 bits a channel (mode {picture.mode}); convert it to 8 bits first")
    grey = picture.mode == "L" and (shape is None or shape[0] == 1)
    values = np.asarray(picture if grey else picture.convert("RGB"), np.uint8)
    return values.reshape(picture.height, picture.width, 1 if grey else 3).transpose(2, 0, 1)


def label_of(value: Any) -> Any:
    """A label as a plain number or text; None where there is none."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def is_image(value: object) -> bool:
    """Whether it is an array, a tensor or a picture of Pillow's."""
    return isinstance(value, np.ndarray) or is_tensor(value) or is_picture(value)


def is_picture(value: object) -> bool:
    """Whether it is an image of Pillow's."""
    return isinstance(value, _known("PIL.Image", "Image"))


def is_tensor(value: object) -> bool:
    """Whether it is a tensor of torch's."""
    return isinstance(value, _known("torch", "Tensor"))


def array_of(value: Any) -> NDArray[Any]:
    """An array or a tensor, on whatever device, as numpy has it."""
    if is_tensor(value):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.float()  # numpy has no bfloat16
        value = value.numpy()
    return np.asarray(value)


def _known(module: str, name: str) -> Any:
    """A class of a library that has been imported already; nothing is one of a library that has not."""
    return getattr(sys.modules.get(module), name, ())
