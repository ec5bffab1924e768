"""What the noise and the bounds must be before a radius is computed from them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigmax.bounds._checks import doubles
from sigmax.errors import RequestError

Floats = NDArray[np.float64]


def noise(sigma: ArrayLike) -> Floats:
    """Standard deviations, as doubles; beyond 1e-100 and 1e100 products of them could under- or overflow."""
    values = doubles(sigma, "sigma")
    if not np.all((values >= 1e-100) & (values <= 1e100)):  # so written, NaN is refused too
        raise RequestError(
            f"expected sigma to be positive and finite, got {sigma!r}; pass the standard deviation of the noise"
        )
    return values


def probability(value: ArrayLike, name: str) -> Floats:
    """Bounds of a probability, as doubles from 0 to 1."""
    values = doubles(value, name)
    if not np.all((values >= 0) & (values <= 1)):
        raise RequestError(
            f"expected 0 <= {name} <= 1, got {value!r}; pass a confidence bound of a class's probability"
        )
    return values


def samples(n: ArrayLike) -> Floats:
    """Numbers of samples, as doubles that hold whole numbers >= 1."""
    values = doubles(n, "n")
    if not np.all((values >= 1) & (values <= 2.0**53) & (values == np.floor(values))):
        raise RequestError(
            f"expected n to be a whole number of samples >= 1, got {n!r}; pass the n of the estimation stage"
        )
    return values


def level(alpha: ArrayLike) -> Floats:
    """Chances of a wrong bound, as doubles strictly between 0 and 1."""
    values = doubles(alpha, "alpha")
    if not np.all((values > 0) & (values < 1)):
        raise RequestError(
            f"expected 0 < alpha < 1, got {alpha!r}; alpha is the chance of a wrong bound: 0.001 is usual"
        )
    return values


def distances(value: ArrayLike, name: str) -> Floats:
    """A list of distances, as doubles of at least 0; infinity is one."""
    values = doubles(value, name)
    if values.ndim != 1 or not np.all(values >= 0):
        raise RequestError(f"expected {name} to be distances of at least 0, got {value!r}; clip them at 0")
    return values


def spans(value: ArrayLike, name: str) -> Floats:
    """Distances, rates and the like, as doubles from 0 to below 1e100."""
    values = doubles(value, name)
    if not np.all((values >= 0) & (values < 1e100)):
        raise RequestError(f"expected {name} to be at least 0 and finite, got {value!r}; pass a number of that kind")
    return values


def plain(values: Floats) -> Any:
    """A float where the caller passed scalars, an array where one was passed."""
    return values if np.ndim(values) else float(values)
