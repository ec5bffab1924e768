"""Image files decoded by Pillow when asked for, all to one shape."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError, needs, resizing

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_MARGIN = 256 / 224  # the shorter side before cropping, in sides of the crop: ImageNet's convention
_DEEP_MODES = ("I", "F")  # more than 8 bits a channel
_ORIENTATION, _AS_STORED, _ON_ITS_SIDE = 0x0112, 1, (5, 6, 7, 8)  # the camera's tag, and what its values mean
_CHECKED, _THREADS = 1024, min(8, os.cpu_count() or 1)  # files a round of the check; Pillow decodes in parallel
_MOST_PIXELS = 64_000_000  # of one image: a file of a few kB can unpack to as many
_LONGEST = 100  # sides of the central square
_NAMED = 5  # bad files that a refusal names


@dataclass(frozen=True)
class ImageFiles:
    """The images in `files`, in that order; a `LazyImages`, so a set larger than memory is no trouble.

    Colour (C=3) or greyscale (C=1) by `shape`. With `size`, the shorter side is resized to
    round(size * 256 / 224), bicubic and antialiased, and the central square of side `size` is kept.
    A photograph is turned as its camera's orientation tag (EXIF) says. Transparency is ignored.
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
        """The size, then a digest of each file's bytes. Names do not count; their order does.

        Every file is decoded on the way: one that cannot be used is refused before a run is begun, all of them at once.
        """
        yield f"upright files at size {self.size} ".encode()
        problems: list[str] = []
        for digest, problem in _examined(self.files):
            problems += [problem] if problem else []
            yield digest
        if problems:
            raise _refusal(problems, len(self.files))

    def _decode(self, file: Path) -> NDArray[np.uint8]:
        channels, height, width = self.shape
        try:
            with _open(file) as image:
                picture = _upright(image).convert("RGB" if channels == 3 else "L")
                values = np.asarray(picture if self.size is None else _centre_square(picture, self.size))
        except RequestError:
            raise
        except Exception as error:  # decoders raise nearly anything on damaged bytes
            raise _unreadable(file, error) from error
        return values.reshape(height, width, channels).transpose(2, 0, 1)


def survey(files: Sequence[Path], size: int | None) -> ImageFiles:
    """The files as images of one shape, from their headers alone; refused if no one shape fits them.

    With `size` the look at the headers ends at the first colour image: a million photographs open as fast as ten.
    """
    needs("PIL.Image", extra="images", why="to read image folders")
    headers: Iterator[_ImageHeader] = (_header(file) for file in files)
    try:
        known = list(headers) if size is None else []
        grey = all(header.mode == "L" for header in known or headers)
    except RequestError:  # one of them is bad: the user hears of all the others with it
        raise _refusal([problem for _, problem in _examined(files) if problem], len(files)) from None
    height, width = _common_size(files, [header.size for header in known]) if size is None else (size, size)
    return ImageFiles(tuple(files), (1 if grey else 3, height, width), size)


def survey_to_fit(files: Sequence[Path], shape: tuple[int, int, int]) -> ImageFiles:
    """The files as images of the shape that a network takes, where they can be.

    Images that all have its size keep every pixel; others are resized and cropped, if it is square. Greyscale becomes
    colour where the network takes colour; colour is never left out.
    """
    needs("PIL.Image", extra="images", why="to read image folders")
    channels, height, width = shape
    try:
        fits = all(_header(file).size == (width, height) for file in files)
    except RequestError:  # said with all the other bad ones
        fits = False
    images = survey(files, width if height == width and not fits else None)
    return replace(images, shape=(3, *images.shape[1:])) if channels == 3 else images


class _ImageHeader(NamedTuple):
    mode: str
    size: tuple[int, int]  # width, height: Pillow's order; of the upright image


def _common_size(files: Sequence[Path], sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    width, height = sizes[0]
    for file, size in zip(files, sizes, strict=True):
        if size != sizes[0]:
            raise RequestError(
                f"all images must have one size: {files[0]} is {width}x{height} but {file} is "
                f"{size[0]}x{size[1]}; give {resizing()} to resize and crop them"
            )
    return height, width


def _header(file: Path) -> _ImageHeader:
    with _open(file) as image:  # Pillow decodes no pixel before one is asked for
        width, height = image.size
        return _ImageHeader(image.mode, (height, width) if _orientation(image) in _ON_ITS_SIDE else (width, height))


def _open(file: Path, stream: IO[bytes] | None = None) -> "Image":
    """The image of a file, whose bytes may be at hand in `stream`."""
    from PIL import Image

    try:
        image = Image.open(file if stream is None else stream)
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        raise _unreadable(file, error) from error
    if image.width * image.height > _MOST_PIXELS:
        image.close()
        raise RequestError(
            f"{file} is of {image.width}x{image.height} pixels, more than the {_MOST_PIXELS:,} that are read; make it "
            "smaller first"
        )
    if is_deep(image):
        image.close()
        raise RequestError(f"{file} has more than 8 bits a channel (mode {image.mode}); convert it to 8 bits first")
    return image


def _examined(files: Sequence[Path]) -> Iterator[tuple[bytes, str]]:
    """The digest of each file's bytes, and what is wrong with it as an image, "" if nothing."""
    with ThreadPoolExecutor(_THREADS) as threads:
        for start in range(0, len(files), _CHECKED):
            yield from threads.map(_examine, files[start : start + _CHECKED])


def _examine(file: Path) -> tuple[bytes, str]:
    content = file.read_bytes()
    problem = ""
    try:
        with _open(file, BytesIO(content)) as image:
            image.draft(None, (1, 1))  # of a JPEG all bytes are read, but an eighth of the pixels are made
            image.convert("RGB")
    except RequestError as error:
        problem = str(error)
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        problem = str(_unreadable(file, error))
    return sha256(content).digest(), problem


def _refusal(problems: Sequence[str], files: int) -> RequestError:
    if len(problems) == 1:
        return RequestError(problems[0])
    named = "\n  ".join(problems[:_NAMED])
    more = f"\n  and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return RequestError(f"{len(problems)} of {files} images cannot be used:\n  {named}{more}")


def _upright(image: "Image") -> "Image":
    """The image as its camera says that it is to be seen, as `PIL.ImageOps.exif_transpose` turns it.

    That function also rewrites the tags, which fails on damaged ones.
    """
    from PIL.Image import Transpose as To

    turns = (To.FLIP_LEFT_RIGHT, To.ROTATE_180, To.FLIP_TOP_BOTTOM, To.TRANSPOSE, To.ROTATE_270, To.TRANSVERSE)
    turn = dict(enumerate((*turns, To.ROTATE_90), start=2)).get(_orientation(image))
    return image if turn is None else image.transpose(turn)


def _orientation(image: "Image") -> int:
    """The orientation tag; a damaged one says nothing. Of a PNG it counts where it precedes the pixels."""
    if image.format == "PNG" and "exif" not in image.info:  # Pillow would decode the pixels to look behind them
        return _AS_STORED
    try:
        return int(image.getexif().get(_ORIENTATION, _AS_STORED))
    except Exception:  # whatever stands in the tag, the pixels are not to blame
        return _AS_STORED


def is_deep(image: "Image") -> bool:
    """Whether it has more than 8 bits a channel, which Pillow would clip silently."""
    return image.mode.startswith(_DEEP_MODES)


def _centre_square(image: "Image", size: int) -> "Image":
    from PIL.Image import Resampling

    if max(image.size) > _LONGEST * min(image.size):
        raise ValueError(f"it is more than {_LONGEST} times as long as wide")
    shorter = round(size * _MARGIN)
    width, height = (side * shorter // min(image.size) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Resampling.BICUBIC).crop((left, top, left + size, top + size))


def _unreadable(file: Path, error: Exception) -> RequestError:
    unknown = type(error).__name__ == "UnidentifiedImageError"  # whose words name a stream, not the file
    reason = "its content is of no known image format" if unknown else error
    return RequestError(f"{file} cannot be read as an image ({reason}); repair it or remove it")
