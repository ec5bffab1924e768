"""Distances to many stored points: fast where they are far, to a known error where they matter."""

# u = 2^-53, v = 2^-24: half an ulp of 1 in double and in single precision; d numbers in a point p or a query x
#
# About: |p - x|^2 = |p|^2 + |x|^2 - 2 p.x, the product in single precision. Whatever the order of summation, p.x
# is off by at most g |p| |x|, g = (d + 4) v / (1 - (d + 4) v), the rounding of p and x to single precision
# included (Higham, 2002, Sec. 3.1, and Cauchy & Schwarz). The sum of the three, taken in double precision, and
# what underflows are covered by 4 v (|p|^2 + |x|^2) and 1e-36 d (1 + |p|^2 + |x|^2).
# Near: differences are taken, squared and summed in double precision: each square to 4 u, the sum to d u, the
# root to half of that: relative error below (d / 2 + 4) u.

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.radius._checks import Floats
from sigmax.radius.normal import EPS

Numbers = NDArray[Any]

_HALF_SINGLE = 2.0**-24
_BLOCK = 2**25  # numbers converted at a time: 128 MiB in single precision
MOST_DIM = 2**22  # beyond it a product in single precision says nothing
MOST = 1e15  # of the numbers in a point: products of them still sum without overflow in single precision


def relative_error(dim: int) -> float:
    """Of `near_distances`: the true distance lies within this share of it."""
    return (dim / 4 + 2) * EPS * 1.05


def near_distances(points: Numbers, chosen: NDArray[np.intp], x: Numbers) -> Floats:
    """Distances of the chosen points from x, (d,), good to `relative_error(d)`."""
    found, double = np.empty(len(chosen)), x.astype(np.float64)
    for part in blocks(len(chosen), points.shape[1]):
        apart = points[chosen[part]].astype(np.float64) - double
        found[part] = np.sqrt(np.einsum("nd,nd->n", apart, apart))
    return found


def square_norms(points: Numbers) -> Floats:
    """|p|^2 of each row, block by block."""
    parts = (points[part].astype(np.float64) for part in blocks(*points.shape))
    return np.concatenate([np.einsum("nd,nd->n", part, part) for part in parts] or [np.empty(0)])


def squares_about(points: Numbers, norms: Floats, queries: Numbers) -> tuple[Floats, Floats]:
    """Squared distances, (queries, points), about, and how far off each may be; norms are the points' |p|^2."""
    dim = points.shape[1]
    own = square_norms(queries)[:, None]
    single = queries.astype(np.float32)
    about = np.empty((len(queries), len(points)))
    for part in blocks(*points.shape):
        about[:, part] = single @ points[part].astype(np.float32, copy=False).T
    about *= -2.0
    about += own + norms
    share = (dim + 4) * _HALF_SINGLE / (1 - (dim + 4) * _HALF_SINGLE)
    error = (2.01 * share) * np.sqrt(own * norms)
    error += (4.1 * _HALF_SINGLE + 1e-36 * dim) * (own + norms) + 1e-36 * dim
    return about, error


def blocks(count: int, dim: int) -> Iterator[slice]:
    """Rows that are converted together, of `count` rows of `dim` numbers."""
    rows = max(1, _BLOCK // max(1, dim))
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def flat_points(values: object, name: str) -> Numbers:
    """Points as rows, of finite numbers in their own precision; images are laid out flat."""
    array: Numbers = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim < 2 or array.size == 0:
        raise RequestError(
            f"expected {name} to be a batch of numbers, one row a point, got {array.dtype} of shape {array.shape}; "
            "stack them in an array"
        )
    rows = array.reshape(len(array), -1)
    if rows.shape[1] > MOST_DIM:
        raise RequestError(f"expected {name} of at most {MOST_DIM:,} numbers each, got {rows.shape[1]:,}; shrink them")
    most = np.float64(MOST)  # half precision would not hold it
    for part in blocks(*rows.shape):
        if not np.all((rows[part] <= most) & (rows[part] >= -most)):  # so written, NaN is refused too
            raise RequestError(f"expected {name} to be finite numbers, got NaN or more than {MOST:g}; clean them")
    return rows
