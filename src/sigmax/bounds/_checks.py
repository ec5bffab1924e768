"""Requests for a bound, checked and made flat on the way in, given back in the caller's shape on the way out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigmax.errors import RequestError

Floats = NDArray[np.float64]
Shape = tuple[int, ...]

EPS = float(np.finfo(np.float64).eps)

_MOST = 2.0**53  # a double holds every whole number up to here
_LEAST_ALPHA = 1e-30  # scipy's inverses were measured down to here; near 1e-270 they are wrong in the fourth digit


def flat(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[Floats, Floats, Floats, Shape]:
    """k, n and alpha as flat arrays of one length, and the shape the answer must have."""
    hits, draws, alphas = np.broadcast_arrays(whole(k, "k"), whole(n, "n"), level(alpha))
    if np.any(hits > draws):
        raise RequestError(f"expected k <= n, got k={k} and n={n}; k counts the votes for one class among n draws")
    return hits.ravel(), draws.ravel(), alphas.ravel(), hits.shape


def shaped(values: Floats, shape: Shape) -> Any:
    """A float where the caller passed scalars, an array where one was passed."""
    return values.reshape(shape) if shape else float(values[0])


def whole(value: ArrayLike, name: str) -> Floats:
    """Whole numbers >= 0, as doubles."""
    values = _numbers(value, name)
    if not np.all((values >= 0) & (values <= _MOST) & (values == np.floor(values))):
        raise RequestError(f"expected {name} to be a whole number >= 0, got {value}; pass counts, not shares")
    return values


def level(alpha: ArrayLike) -> Floats:
    """Chances of a wrong bound: at least 1e-30 and below 1."""
    values = _numbers(alpha, "alpha")
    if not np.all((values >= _LEAST_ALPHA) & (values < 1)):  # so written, NaN is refused too
        raise RequestError(
            f"expected {_LEAST_ALPHA:.0e} <= alpha < 1, got {alpha}; alpha is the chance of a wrong bound: 0.001 is usual"
        )
    return values


def _numbers(value: ArrayLike, name: str) -> Floats:
    numbers: NDArray[Any] = np.asarray(value)
    if numbers.dtype.kind not in "iuf":
        raise RequestError(f"expected {name} to be a number or an array of numbers, got {value!r}; convert it first")
    return numbers.astype(np.float64)
