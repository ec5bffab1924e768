"""Small pictures of the inputs, for looking at: sheets of WebP, never more letters than a page has room for.

Large images are shrunk, and where the sheets would be too large they are stored with loss.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.data import Dataset
from sigmax.errors import RequestError, needs
from sigmax.records.run import Run

SIDE = 64  # pixels of a thumbnail at most
COLUMNS, PER_SHEET = 16, 256
MOST_LETTERS, FEWEST_LETTERS = 6_000_000, 1_000_000  # of base64 for all sheets together
GREY, COLOUR = 1, 3
TRIED = 8  # one sheet in so many is tried first

# From the best to what still shows what an input is: WebP's own settings, and how many pixels become one.
LOSSLESS: dict[str, Any] = {"lossless": True, "quality": 75, "method": 4}
SETTINGS: tuple[tuple[dict[str, Any], int], ...] = (
    (LOSSLESS, 1),
    *(({"quality": quality, "method": 4}, 1) for quality in (90, 75, 50, 25)),
    ({"quality": 50, "method": 4}, 2),
    ({"quality": 25, "method": 4}, 4),
)

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Thumbnails:
    """`sheets` of base64, and what finds an input on them: its place in `index`, rows of COLUMNS tiles."""

    index: tuple[int, ...]
    height: int
    width: int
    sheets: tuple[str, ...]
    exact: bool  # whether every pixel is as the data set has it, to the 8 bits of a screen

    def described(self) -> dict[str, Any]:
        """What the page needs to find a tile."""
        return {
            "index": list(self.index),
            "height": self.height,
            "width": self.width,
            "columns": COLUMNS,
            "perSheet": PER_SHEET,
            "exact": self.exact,
        }


def belongs(run: Run, images: Dataset) -> bool:
    """Whether the run certified these images: the same fingerprint; a log without one must agree in every label."""
    stated = run.plan.data.get("fingerprint")
    if stated is not None:
        return bool(stated == images.fingerprint)
    return all(r.index < len(images) and images.labels_at([r.index]) == [r.label] for r in run.records)


def shown_in(runs: Mapping[str, Run], images: Dataset) -> list[str]:
    """The names of the runs that these images belong to; refused where there is none."""
    names = [name for name, run in runs.items() if belongs(run, images)]
    if not names:
        known = sorted({_known(run) for run in runs.values()})
        raise RequestError(
            f"{images.name} {images.split} (fingerprint {images.fingerprint}) is not what the runs certified "
            f"({', '.join(known)}); name the data set, the split and the image size that `sigmax certify` was given"
        )
    return names


def _known(run: Run) -> str:
    """How a run says which images it certified."""
    stated = run.plan.data.get("fingerprint")
    return f"{run.path.name} has other labels" if stated is None else f"fingerprint {stated}"


def thumbnails(images: Dataset, index: Sequence[int], *, most_letters: int = MOST_LETTERS) -> Thumbnails:
    """The images at `index`, at the best quality that fits."""
    tiles, shrunk = _tiles(images, index)
    for settings, step in SETTINGS:
        small = _every(tiles, step)
        sheets = _within(small, settings, most_letters)
        if sheets:
            height, width = small.shape[1:3]
            exact = settings is LOSSLESS and not shrunk
            return Thumbnails(tuple(index), height, width, tuple(sheets), exact)
    raise RequestError(
        f"{len(index):,} images do not fit a page, however small; report on fewer inputs, or leave --data out"
    )


def _tiles(images: Dataset, index: Sequence[int]) -> tuple[Bytes, bool]:
    """(n, H, W, 3) as bytes, and whether they had to be shrunk."""
    channels, height, width = images.shape
    if channels not in (GREY, COLOUR):
        raise RequestError(f"expected images of 1 or 3 channels to show; {images.name} has {channels}: leave it out")
    step = -(-max(height, width) // SIDE)
    blocks = [_as_bytes(images.pixels(list(index[a : a + PER_SHEET]))) for a in range(0, len(index), PER_SHEET)]
    tiles = np.concatenate([_every(block, step) for block in blocks])
    return np.broadcast_to(tiles, (*tiles.shape[:3], COLOUR)), step > 1


def _as_bytes(pixels: NDArray[np.float32]) -> Bytes:
    """(n, C, H, W) in [0, 1] as (n, H, W, C) from 0 to 255."""
    return np.moveaxis((255 * pixels.astype(np.float64)).round().astype(np.uint8), 1, 3)


def _every(tiles: Bytes, step: int) -> Bytes:
    """Blocks of step x step pixels averaged to one; what does not fill a block at the edge is cut off."""
    if step == 1:
        return tiles
    n, height, width, channels = tiles.shape
    rows, columns = max(1, height // step), max(1, width // step)
    cut = tiles[:, : rows * step, : columns * step]
    blocks = cut.reshape(n, rows, cut.shape[1] // rows, columns, cut.shape[2] // columns, channels)
    return np.asarray(blocks.mean(axis=(2, 4)).round().astype(np.uint8))


def _within(tiles: Bytes, settings: dict[str, Any], most: int) -> list[str]:
    """The sheets; none of them where they are too large together, which a few of them show before all are encoded."""
    sheets = list(_sheets(tiles))
    few = sheets[::TRIED]
    if len(few) > 1 and len(sheets) * sum(len(_webp(sheet, settings)) for sheet in few) > most * len(few):
        return []
    encoded = [b64encode(_webp(sheet, settings)).decode("ascii") for sheet in sheets]
    return encoded if sum(map(len, encoded)) <= most else []


def _sheets(tiles: Bytes) -> Iterator[Bytes]:
    _, height, width, channels = tiles.shape
    for start in range(0, len(tiles), PER_SHEET):
        block = tiles[start : start + PER_SHEET]
        rows = -(-len(block) // COLUMNS)
        full = np.zeros((rows * COLUMNS, height, width, channels), np.uint8)
        full[: len(block)] = block
        grid = full.reshape(rows, COLUMNS, height, width, channels).transpose(0, 2, 1, 3, 4)
        yield grid.reshape(rows * height, COLUMNS * width, channels)


def _webp(sheet: Bytes, settings: dict[str, Any]) -> bytes:
    buffer = BytesIO()
    needs("PIL.Image", extra="plot", why="to show images").fromarray(sheet).save(buffer, "WEBP", **settings)
    return buffer.getvalue()
