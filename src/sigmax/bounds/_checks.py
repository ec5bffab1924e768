"""Requests for a bound, checked and made flat on the way in, given back in the caller's shape on the way out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigmax.errors import RequestError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Shape = tuple[int, ...]

EPS = float(np.finfo(np.float64).eps)

# How far the rounding of the bounds was measured; beyond it they might be unsound.
_MOST_SAMPLES = 1e9
_LEAST_ALPHA = 1e-30


def flat(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[Floats, Floats, Floats, Shape]:
    """k, n and alpha as flat arrays of one length, and the shape the answer must have."""
    hits, samples, alphas = np.broadcast_arrays(whole(k, "k"), whole(n, "n"), level(alpha))
    if np.any(hits > samples):
        raise RequestError(
            f"expected k <= n, got k={k!r} and n={n!r}; k counts the votes for one class among n samples"
        )
    return hits.ravel(), samples.ravel(), alphas.ravel(), hits.shape


def shaped(values: Floats, shape: Shape) -> Any:
    """A float where the caller passed scalars, an array where one was passed."""
    return values.reshape(shape) if shape else float(values[0])


def whole(value: ArrayLike, name: str) -> Floats:
    """Whole numbers from 0 to a billion, as doubles."""
    values = doubles(value, name)
    if not np.all((values >= 0) & (values <= _MOST_SAMPLES) & (values == np.floor(values))):  # so written, no NaN
        raise RequestError(
            f"expected {name} to be a whole number from 0 to 1e9, got {value!r}; pass counts, not shares"
        )
    return values


def level(alpha: ArrayLike) -> Floats:
    """Chances of a wrong bound: at least 1e-30 and below 1."""
    values = doubles(alpha, "alpha")
    if not np.all((values >= _LEAST_ALPHA) & (values < 1)):
        raise RequestError(
            f"expected alpha from 1e-30 to below 1, got {alpha!r}; the chance of a wrong bound, 0.001 as a rule"
        )
    return values


def doubles(value: ArrayLike, name: str) -> Floats:
    """A number or an array of numbers, as doubles; anything else, such as a truth value or a string, is refused."""
    numbers: NDArray[Any] = np.asarray(value)
    if numbers.dtype.kind not in "iuf":
        raise RequestError(f"expected {name} to be a number or an array of numbers, got {value!r}; convert it first")
    return numbers.astype(np.float64)
