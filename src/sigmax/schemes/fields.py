"""Noise that depends on the input: a field gives sigma(x), how fast it can change, and who says so."""

# |log sigma(x) - log sigma(y)| <= rate * |x - y| + jitter for all x, y; jitter: twice the error of log sigma as
# computed

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.radius.distances import (
    blocks,
    flat_points,
    near_distances,
    relative_error,
    square_norms,
    squares_about,
)
from sigmax.radius.normal import EPS

Floats = NDArray[np.float64]

_AT_ONCE = 2**23  # squared distances held at a time: 64 MiB
_REACH = 100.0  # mean distances above this many times the largest training point are refused


@runtime_checkable
class SigmaField(Protocol):
    """What a scheme asks of noise that depends on the input."""

    @property
    def rate(self) -> float:
        """How fast log sigma changes with distance, at most."""

    @property
    def jitter(self) -> float:
        """What rounding adds to a change of log sigma, at any distance."""

    @property
    def proved(self) -> bool:
        """Whether the rate follows from how the field is made; otherwise somebody vouches for it."""

    def sigmas(self, x: Any) -> Floats:
        """The noise of each input of a batch."""

    def describe(self) -> dict[str, Any]:
        """What a record must name to make the field again."""


class _Settled:
    """Keeps what it was made with: a rule has taken the rate down, and noise of another would break it.

    What a class of a user's own adds is theirs to change.
    """

    _kept: frozenset[str] = frozenset()

    def _settle(self) -> None:
        """From now on nothing that is here can be changed, by name or in place."""
        _freeze(vars(self))
        self._kept = frozenset([*vars(self), "_kept"])

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)
        super().__delattr__(name)

    def _refuse(self, name: str) -> None:
        if name in self._kept:
            raise AttributeError(f"a sigma field keeps what it was made with; make another to change {name}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _freeze(state)  # copies of arrays can be written to


class NearestNeighbourSigma(_Settled):
    """sigma(x) = base * exp(rate * (mean distance of x to its k nearest training points - offset)).

    The rate is proved: a distance to a point changes by at most |x - y|, the mean of the k least as well (replace
    the k nearest to x by those nearest to y: the mean cannot fall). Source: Sukenik et al. (2022), Equation 1 and
    Theorem 4.1. Neighbours are exact: products in single precision leave out only points that are certainly not
    among them, the distances of the others are taken in double precision, and what that leaves as error is the
    jitter. Memory: the training points, copied if they could be changed from outside, 64 MiB of distances and a
    block of 128 MiB.
    """

    proved = True

    def __init__(self, train: Any, base: float, rate: float, k: int, offset: float) -> None:
        self._points = _unchanging(flat_points(as_array(train), "the training points"))
        count, self.dim = self._points.shape
        if not is_whole(k) or not 1 <= k <= count:
            raise RequestError(f"expected k from 1 to the {count} training points, got {k!r}; 20 is usual")
        self.base, self.rate = _positive(base, "base"), _positive(rate, "rate")
        if not is_number(offset):
            raise RequestError(f"expected offset to be a distance, got {offset!r}; 5.0 is usual for CIFAR-10")
        self.k, self.offset = int(k), float(offset)
        self._norms = square_norms(self._points)
        self._most = _REACH * (1 + math.sqrt(float(self._norms.max())))
        # Of log sigma: the distances' error, and a few roundings of the exponent and of the exponential.
        exponent = self.rate * (self._most + abs(self.offset))
        self.jitter = 2 * (self.rate * self._most * relative_error(self.dim) + 8 * EPS * (1 + exponent))
        self._settle()

    def sigmas(self, x: Any) -> Floats:
        """The noise of each input of a batch."""
        exponents = self.rate * (self.mean_distances(x) - self.offset)
        if not np.all(np.abs(exponents) < 200):
            raise RequestError(
                f"expected noise within 1e80 times base, got exponents up to {np.abs(exponents).max():.3g}; choose "
                "an offset near the usual mean distance, or a smaller rate"
            )
        noise: Floats = self.base * np.exp(exponents)
        return noise

    def mean_distances(self, x: Any) -> Floats:
        """Mean distance of each input to its k nearest training points."""
        queries = flat_points(as_array(x), "the inputs")
        if queries.shape[1] != self.dim:
            raise RequestError(
                f"expected inputs of {self.dim} numbers, as the training points, got {queries.shape[1]}; use the "
                "same data"
            )
        size = max(1, _AT_ONCE // len(self._points))
        parts = [self._means(queries[start : start + size]) for start in range(0, len(queries), size)]
        means = np.concatenate(parts)
        if not np.all(means <= self._most):
            raise RequestError(
                f"expected inputs within {self._most:.3g} of the training points, got one at {means.max():.3g}; "
                "use one scale of pixels for both"
            )
        return means

    def _means(self, queries: NDArray[Any]) -> Floats:
        about, off = squares_about(self._points, self._norms, queries)
        kth = np.partition(about + off, self.k - 1, axis=1)[:, self.k - 1]
        about -= off
        return np.array([self._mean(x, row <= most) for x, row, most in zip(queries, about, kth, strict=True)])

    def _mean(self, x: NDArray[Any], perhaps: NDArray[np.bool_]) -> float:
        found = near_distances(self._points, np.flatnonzero(perhaps), x)
        return math.fsum(np.partition(found, self.k - 1)[: self.k]) / self.k

    @property
    def points(self) -> NDArray[Any]:
        """The training points, a row each."""
        return self._points

    @cached_property
    def fingerprint(self) -> str:
        """Of the training points."""
        digest = hashlib.sha256(f"{self._points.dtype.str} {self._points.shape}".encode())
        for part in blocks(*self._points.shape):
            digest.update(np.ascontiguousarray(self._points[part]).tobytes())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What a record must name to make the field again."""
        return {
            "field": "nearest-neighbour",
            "base": self.base,
            "rate": self.rate,
            "k": self.k,
            "offset": self.offset,
            "points": len(self._points),
            "train": self.fingerprint,
            "jitter": self.jitter,
            "proved": True,
        }


class VouchedField(_Settled):
    """A function of the user's, batch -> sigmas, whose rate the user vouches for; records say so.

    A function computed in single precision needs a jitter: twice the error of log sigma, about 1e-6.
    """

    proved = False

    def __init__(self, function: Callable[[Any], Any], rate: float, *, jitter: float = 0.0) -> None:
        if not callable(function):
            raise RequestError(f"expected a function from a batch to its sigmas, got {function!r}; pass a callable")
        self._function = function
        self.rate = _positive(rate, "rate", zero=True)
        self.jitter = _positive(jitter, "jitter", zero=True)
        self._settle()

    def sigmas(self, x: Any) -> Floats:
        """The noise of each input of a batch."""
        found = as_array(self._function(x))
        right = found.shape == (len(x),) and found.dtype.kind in "iuf"
        noise = found.astype(np.float64) if right else np.empty(0)
        if not right or not np.all((noise > 0) & (noise < 1e100)):
            raise RequestError(
                f"expected {len(x)} positive sigmas, one an input, got {found.dtype} of shape {found.shape}: "
                f"{found.ravel()[:5].tolist()}; return one standard deviation for each input of the batch"
            )
        return noise

    def describe(self) -> dict[str, Any]:
        """What a record must name; the function itself it can only name."""
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        return {"field": "vouched", "function": name, "rate": self.rate, "jitter": self.jitter, "proved": False}


def as_array(values: Any) -> NDArray[Any]:
    """A numpy array of an array or a tensor, wherever it lives."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        values = tensor.numpy() if str(tensor.dtype) != "torch.bfloat16" else tensor.float().numpy()
    array: NDArray[Any] = np.asarray(values)
    return array


def _unchanging(points: NDArray[Any]) -> NDArray[Any]:
    """The same array if nobody can write to it, else a copy: another set of points would be another field."""
    holder: Any = points
    while isinstance(holder, np.ndarray) and not holder.flags.writeable:
        if holder.base is None:
            return points
        holder = holder.base
    own = points.copy()
    own.setflags(write=False)
    return own


def _freeze(state: Mapping[str, Any]) -> None:
    for value in state.values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


def _positive(value: float, name: str, *, zero: bool = False) -> float:
    if not is_number(value) or value < 0 or (value == 0 and not zero) or value >= 1e100:
        raise RequestError(
            f"expected {name} to be a number {'at least' if zero else 'above'} 0, got {value!r}; change it"
        )
    return float(value)
