"""Image files decoded by Pillow when asked for, all to one shape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_MARGIN = 256 / 224  # the shorter side before cropping, in sides of the crop: ImageNet's convention
_DEEP_MODES = ("I", "F")  # more than 8 bits a channel, which Pillow would clip silently


@dataclass(frozen=True)
class ImageFiles:
    """The images in `files`, in that order; a `LazyImages`, so a set larger than memory is no trouble.

    Colour (C=3) or greyscale (C=1) by `shape`. With `size`, the shorter side is resized to
    round(size * 256 / 224), bicubic and antialiased, and the central square of side `size` is kept.
    Transparency and the camera's orientation tag are ignored.
    """

    files: tuple[Path, ...]
    shape: tuple[int, int, int]
    size: int | None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Decode the images at `indices`: (n, C, H, W), uint8."""
        images = np.empty((len(indices), *self.shape), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._decode(self.files[index])
        return images

    def take(self, indices: NDArray[np.int64]) -> "ImageFiles":
        """The files at `indices` alone."""
        return replace(self, files=tuple(self.files[index] for index in indices))

    def content(self) -> Iterator[bytes]:
        """The size, then a digest of each file's bytes. Names do not count; their order does."""
        yield f"files at size {self.size} ".encode()
        for file in self.files:
            with file.open("rb") as stream:
                yield file_digest(stream, "sha256").digest()

    def _decode(self, file: Path) -> NDArray[np.uint8]:
        channels, height, width = self.shape
        try:
            with _open(file) as image:
                picture = image.convert("RGB" if channels == 3 else "L")
                values = np.asarray(picture if self.size is None else _centre_square(picture, self.size))
        except RequestError:
            raise
        except Exception as error:  # decoders raise nearly anything on damaged bytes
            raise _unreadable(file, error) from error
        return values.reshape(height, width, channels).transpose(2, 0, 1)


def survey(files: Sequence[Path], size: int | None) -> ImageFiles:
    """The files as images of one shape, from their headers alone; refused if no one shape fits them.

    Greyscale if every image is stored as 8-bit grey, else colour. With `size` the look at the headers ends at
    the first colour image, so that a million photographs open as fast as ten.
    """
    _require_pillow()
    headers: Iterator[_Header] = (_header(file) for file in files)
    if size is None:
        known = list(headers)
        height, width = _common_size(files, [header.size for header in known])
        headers = iter(known)
    else:
        height = width = size
    grey = all(header.mode == "L" for header in headers)
    return ImageFiles(tuple(files), (1 if grey else 3, height, width), size)


class _Header(NamedTuple):
    mode: str
    size: tuple[int, int]  # width, height: Pillow's order


def _require_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise RequestError("image folders need Pillow: pip install 'sigmax[images]'") from error


def _common_size(files: Sequence[Path], sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    width, height = sizes[0]
    for file, size in zip(files, sizes, strict=True):
        if size != sizes[0]:
            raise RequestError(
                f"all images must have one size: {files[0]} is {width}x{height} but {file} is "
                f"{size[0]}x{size[1]}; give --image-size (size= in Python) to resize and crop them"
            )
    return height, width


def _header(file: Path) -> _Header:
    with _open(file) as image:  # Pillow decodes no pixel before one is asked for
        return _Header(image.mode, image.size)


def _open(file: Path) -> "Image":
    from PIL import Image

    try:
        image = Image.open(file)
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        raise _unreadable(file, error) from error
    if image.mode.startswith(_DEEP_MODES):
        image.close()
        raise RequestError(f"{file} has more than 8 bits a channel (mode {image.mode}); convert it to 8 bits first")
    return image


def _centre_square(image: "Image", size: int) -> "Image":
    from PIL.Image import Resampling

    shorter = round(size * _MARGIN)
    width, height = (side * shorter // min(image.size) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Resampling.BICUBIC).crop((left, top, left + size, top + size))


def _unreadable(file: Path, error: Exception) -> RequestError:
    return RequestError(f"{file} cannot be read as an image ({error}); repair it or remove it")
