"""Which inputs of a data set a run takes."""

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError


def select(count: int, *, start: int = 0, skip: int = 1, maximum: int | None = None) -> NDArray[np.int64]:
    """Indices start, start + skip, start + 2 skip, ... below `count`: at most `maximum` of them.

    `maximum` counts the inputs taken, after skipping: `skip=20, maximum=500` on 10,000 inputs takes the 500
    inputs 0, 20, ..., 9980. The selection depends on nothing but these four numbers; an empty one is refused.
    """
    _require(count >= 1, f"there must be at least 1 input to select from, got {count}; check the data")
    _require(0 <= start < count, f"start must lie in 0..{count - 1}, got {start}; nothing would be selected")
    _require(skip >= 1, f"skip must be at least 1, got {skip}; 1 takes every input, 20 every 20th")
    _require(maximum is None or maximum >= 1, f"max must be at least 1, got {maximum}; omit it for all")
    return np.arange(start, count, skip, dtype=np.int64)[:maximum]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RequestError(message)
