"""Uniform noise as a theorem sees it: shares of votes are scores in the l1 norm."""

# s scale; p_c(x) probability of class c under noise uniform on [-s, s]^d at x; z_c(x) = 2 s p_c(x) its score

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from sigmax.errors import RequestError
from sigmax.numbers import is_number
from sigmax.radius._checks import level, noise, plain, probability, samples
from sigmax.radius.noise import LEAST_SIGMA, register, usable_level
from sigmax.radius.normal import EPS

LEAST = 2.0**-1000  # a smaller radius is 0: products near the smallest doubles err by more than half an ulp


class ShareScore(ABC):
    """Noise whose scores are shares of votes: z_c = 2 * s * p_c, 1-Lipschitz in l1."""

    norm: ClassVar[str] = "l1"

    @property
    @abstractmethod
    def usable_scale(self) -> float:
        """The s that scores may use, to half an ulp."""

    def margin(self, high: float, low: float) -> float:
        """2 * s * (high - low), rounded down, or 0."""
        return self._scaled(_share(high) - _share(low))

    def lead(self, lower: float, upper: float | None = None) -> float:
        """2 * s * (lower - min(upper, 1 - lower)), rounded down, or 0."""
        alone = 2 * _share(lower) - 1  # lower - (1 - lower), exact: of numbers from 1/2 on even the difference is
        return self._scaled(alone if upper is None else max(alone, lower - _share(upper)))

    def _scaled(self, gap: float) -> float:
        # A difference of doubles errs by half an ulp of itself, a product by as much again; 2 * is exact.
        found = 2 * self.usable_scale * gap * (1 - 4 * EPS)
        return found if found >= LEAST else 0.0


@dataclass(frozen=True)
class Uniform(ShareScore):
    """Noise uniform on [-scale, scale] in every number of the input: z_c = 2 * scale * p_c is 1-Lipschitz in l1.

    So the radius of p_A >= L and p_B <= U is scale * (L - U), and scale * (2 L - 1) where L alone is known.
    Proof: a cube of side 2s and the same cube moved by d have in common prod max(0, 1 - |d_i| / (2s)) of their volume,
    at least 1 - |d|_1 / (2s); the share of no event differs by more than the rest.
    Samples are scaled as 32-bit floats; scores use the smaller of the two scales. Of each number there are 2^23 values,
    the midpoints of equal cells that fill [-s, s] (see `noise.uniform`): moved by k cells they keep all but k of them,
    so the theorem holds for these values too, wherever an input moves in whole cells and sums are exact. Sums are
    32-bit floats, as with Gaussian noise without a grid, and a base classifier that reads their rounding could be
    certified falsely. For 8-bit images `Splitting` has no such gap.
    Source: Lee et al. (2019); Yang et al. (2020), "Randomized smoothing of all shapes and sizes", Table 1.
    """

    name: ClassVar[str] = "uniform"
    scale: float

    def __post_init__(self) -> None:
        if not is_number(self.scale) or not LEAST_SIGMA < self.scale < 1 / LEAST_SIGMA:
            raise RequestError(
                "scale must be a positive number (noise is uniform on [-scale, scale], in pixel units, [0, 1]); "
                f"got {self.scale!r}"
            )
        object.__setattr__(self, "scale", float(self.scale))  # numpy's numbers would not survive a file

    @property
    def sigma(self) -> float:
        """The level of the noise: its scale. (Its standard deviation is scale / sqrt(3).)"""
        return self.scale

    @property
    def usable_scale(self) -> float:
        """The smaller of the scale and its 32-bit float."""
        return usable_level(self.scale)


@overload
def uniform(scale: float, lower: float, upper: float | None = None) -> float: ...
@overload
def uniform(scale: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any: ...
def uniform(scale: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any:
    """Radius in l1 within which no other class overtakes A: scale * (L - min(U, 1 - L)), rounded down, or 0.

    As `gaussian`, for noise uniform on [-scale, scale]; see `Uniform` for the theorem. Scalars give a float, arrays an
    array.
    """
    levels, low = noise(scale), probability(lower, "lower")
    gap = 2 * low - 1
    if upper is not None:
        gap = np.maximum(gap, low - probability(upper, "upper"))
    usable = np.minimum(levels, levels.astype(np.float32).astype(np.float64))
    found = usable * np.maximum(gap, 0.0) * (1 - 4 * EPS)
    return plain(np.where(found < LEAST, 0.0, found))


def largest_uniform(scale: float, n: int, alpha: float) -> float:
    """The largest radius in l1 that n samples can certify at alpha, if all agree; to plan, rounded to nearest."""
    share = float(level(alpha)) ** (1 / float(samples(n)))
    return float(scale * max(0.0, 2 * share - 1))


def _share(p: float) -> float:
    if not 0 <= p <= 1:
        raise RequestError(f"expected a probability from 0 to 1, got {p!r}; pass a confidence bound")
    return float(p)


register(Uniform.name, Uniform, level="scale")
