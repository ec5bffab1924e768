"""The exact bounds of `fixed`, looked up: a count's neighbours are computed with it, since they come next."""

# Alone a bound takes 120 us, among 64 neighbours 10 us: at a vote every 3 us that is what a GPU would wait for.

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import numpy as np

from sigmax.bounds import fixed

_TOGETHER = 64  # counts computed at once
_KEPT = 2**14  # pieces of so many counts that are kept: 10 MB
_ASKED = 2**15  # answers kept by themselves: five in six are asked for again soon; 8 MB
_outwards = ContextVar("_outwards", default=fixed.CLAIMED)


@lru_cache(maxsize=_ASKED)
def lower(k: int, n: int, alpha: float) -> float:
    """The same number as `fixed.lower`."""
    return _piece(k // _TOGETHER, n, alpha, True, _outwards.get())[k % _TOGETHER]


@lru_cache(maxsize=_ASKED)
def upper(k: int, n: int, alpha: float) -> float:
    """The same number as `fixed.upper`."""
    return _piece(k // _TOGETHER, n, alpha, False, _outwards.get())[k % _TOGETHER]


@lru_cache(maxsize=_KEPT)
def _piece(piece: int, n: int, alpha: float, down: bool, outwards: float) -> "array[float]":
    counts = np.arange(piece * _TOGETHER, min(n, (piece + 1) * _TOGETHER - 1) + 1)
    return array("d", (fixed.lower if down else fixed.upper)(counts, n, alpha, outwards=outwards).tobytes())


@contextmanager
def as_proved() -> Iterator[None]:
    """Within, a bound is the one that is proved, some last bits nearer to k / n than the one that is claimed.

    Another processor or library computes exp and log with other last bits, and so claims another bound. What it claims
    is still proved here. For the check of a record; a certificate made within would be right, but not made again.
    """
    before = _outwards.set(fixed.PROVED)
    _forget()
    try:
        yield
    finally:
        _outwards.reset(before)
        _forget()


def _forget() -> None:
    lower.cache_clear()
    upper.cache_clear()
