"""Data as a page carries them: short columns, whole numbers, compressed.

Real numbers travel as whole millionths, rounded to the side that claims less. The page cuts more digits off, also
downward, so what it prints is what `sigmax.records.rounding.down` would.
"""

import gzip
import json
import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MILLION = 1_000_000


def packed(data: object) -> str:
    """Plain data as base64 of gzipped JSON: no character of it can end the script element it stands in."""
    return compressed(json.dumps(data, separators=(",", ":"), allow_nan=False))


def compressed(text: str) -> str:
    """Text gzipped, as base64; the same text gives the same letters, whatever the clock says."""
    return b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode("ascii")


def column(values: Iterable[Any]) -> Any:
    """A list of values, or the value itself where all of them are alike."""
    listed = list(values)
    return listed[0] if listed and all(value == listed[0] for value in listed) else listed


def millionths(value: float | None) -> int | None:
    """The number in millionths, exactly rounded down; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * MILLION // denominator


def millionths_up(value: float | None) -> int | None:
    """The same rounded up, for a number that claims less the larger it is."""
    down = millionths(None if value is None else -value)
    return None if down is None else -down


def hundredths(k: NDArray[np.int64], n: int) -> list[int]:
    """The shares k of n in hundredths of a percent, rounded down without a float between."""
    return [10_000 * int(part) // n for part in k]


def thinned(steps: int, most: int) -> NDArray[np.int64]:
    """Which of many steps to keep, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, steps - 1, min(steps, most)).round().astype(np.int64))


def floats(values: Sequence[float] | NDArray[np.float64]) -> list[int | None]:
    """Numbers in millionths, rounded down."""
    return [millionths(value) for value in values]
