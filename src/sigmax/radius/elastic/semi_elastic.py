"""The radius where the noise changes with the input, but not faster than a known rate."""

# L <= p_A; rate r: |log sigma(x) - log sigma(y)| <= r |x - y|; N dimension; xi the chance, at an adversary with
# noise sigma_1, of everything but A, for the classifier that is worst for this pair of points; u = 2^-53

import math
from collections.abc import Callable
from functools import cache
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sigmax.errors import RequestError
from sigmax.radius._checks import Floats, noise, plain, probability, spans
from sigmax.radius.elastic.worst_case import crossing, rival_above
from sigmax.radius.gaussian import gaussian
from sigmax.radius.normal import EPS

MOST_RATIO = 1e4  # of two noise levels: beyond it nothing is claimed
MOST_DIM = 10**8
_TIGHT = 2e-12  # how close to 1/2 the search for a radius ends, in standard deviations
_CERTAIN = 38.0  # standard deviations
_SHRINK = 1e-13  # first step back where the search ended on the wrong side
_BITS = 32  # that a radius keeps: in the others the quadrature may differ from machine to machine


@overload
def xi(distance: float, sigma0: float, sigma1: float, lower: float, dim: int) -> float: ...
@overload
def xi(distance: ArrayLike, sigma0: ArrayLike, sigma1: ArrayLike, lower: ArrayLike, dim: int) -> Any: ...
def xi(distance: ArrayLike, sigma0: ArrayLike, sigma1: ArrayLike, lower: ArrayLike, dim: int) -> Any:
    """The greatest chance of all but A at a distance, under sigma1, if p_A >= lower under sigma0; rounded up.

    It exceeds the exact value by less than 1e-10 (1e-12 where the noise levels are close), never falls below it,
    and is 1 where the noise levels differ more than 10,000 times. Below 1/2 the adversary is certified.
    Scalars give a float, arrays an array. Source: Sukenik et al. (2022), Theorem 2.3.
    """
    check_dim(dim)
    away = spans(distance, "distance")
    everything = np.broadcast_arrays(away, noise(sigma0), noise(sigma1), probability(lower, "lower"))
    return plain(_each(lambda a, s0, s1, p: _xi(a, s0, s1, p, dim), everything))


def _xi(distance: float, sigma0: float, sigma1: float, lower: float, dim: int) -> float:
    ratio, away = sigma1 / sigma0, distance / sigma0 * (1 + 2 * EPS)
    if lower == 1:
        return 0.0
    if not (1 / MOST_RATIO < ratio < MOST_RATIO and away < 1e100):
        return 1.0
    # P1 with the rounded ratio is within u * sqrt(N/2) of P1 in total variation (Pinsker's inequality).
    return min(1.0, rival_above(away, ratio, _rest(lower), dim) + EPS * math.sqrt(dim))


@overload
def semi_elastic(sigma: float, lower: float, rate: float, dim: int, *, jitter: float = 0.0) -> float: ...
@overload
def semi_elastic(sigma: ArrayLike, lower: ArrayLike, rate: ArrayLike, dim: int, *, jitter: ArrayLike = 0.0) -> Any: ...
def semi_elastic(sigma: ArrayLike, lower: ArrayLike, rate: ArrayLike, dim: int, *, jitter: ArrayLike = 0.0) -> Any:
    """Radius within which no class overtakes A although the noise changes with the input; rounded down.

    R = sup {R : xi(R, sigma e^-d) < 1/2 and xi(R, sigma e^d) < 1/2}, d = rate * R + jitter; 0 where nothing is
    proved, inf where lower = 1. Never above the constant-noise radius `gaussian(sigma, lower)`, and equal to it
    for rate 0. Roughly sigma * Phi^-1(lower) / sqrt(1 + 2 * (rate * sigma)^2 * dim). Scalars give a float, arrays
    an array.

    Needs: sigma is the noise at the input, and |log sigma(x) - log sigma(y)| <= rate * |x - y| + jitter for all
    x, y; p_A >= lower. If that bound holds with probability 1 - alpha, so does the radius.
    jitter is for noise computed in floating point: twice the error of its logarithm.
    Why: any R at which an *upper* bound of xi is below 1/2 on both sides will do, since xi rises with distance
    (Lemma F.4) and stays at or below 1/2 for every noise level in between (Theorem 3.1). Only such an R is
    returned, whatever the search did. It falls short of the exact radius by less than 1e-9 of it where lower
    is above 0.51.
    Source: Sukenik et al. (2022), Theorem 3.2; never above the constant one: Theorem B.6.
    """
    check_dim(dim)
    rates, jitters = spans(rate, "rate"), spans(jitter, "jitter")
    everything = np.broadcast_arrays(noise(sigma), probability(lower, "lower"), rates, jitters)
    return plain(_each(lambda s, p, r, j: _radius(s, p, r, j, dim), everything))


def _radius(sigma: float, lower: float, rate: float, jitter: float, dim: int) -> float:
    constant = gaussian(sigma, lower)
    if constant in (0.0, math.inf) or rate == jitter == 0:
        return constant
    rest = _rest(lower)
    score = -float(ndtri(rest))
    slope = math.sqrt(1 + 2 * (rate * sigma) ** 2 * dim) / sigma

    @cache
    def spare(side: int, radius: float) -> float:
        """How far xi is below 1/2 on one side, in standard deviations; falls with the radius."""
        if radius <= 0:
            return score
        ratio = _ratio(side, radius, rate, jitter)
        if ratio is None:
            return -_CERTAIN
        chance = rival_above(radius / sigma * (1 + 2 * EPS), ratio, rest, dim)
        return -max(-_CERTAIN, min(_CERTAIN, float(ndtri(chance))))

    radius = min(constant, score / slope)
    for side in (1, -1):  # more noise at the adversary is the harder side, mostly: it is searched first
        if side == 1 or spare(side, radius) < 0:
            found = crossing(lambda minus, side=side: spare(side, -minus), -radius, slope, _TIGHT)  # type: ignore[misc]
            radius = 0.0 if found is None else min(constant, -found)
    return _shortened(_checked(lambda r: spare(1, r) > 0 and spare(-1, r) > 0, radius))


def _shortened(radius: float) -> float:
    """Rounded down to `_BITS` bits, so that another machine recomputes the same number."""
    mantissa, exponent = math.frexp(radius)
    return math.ldexp(math.floor(math.ldexp(mantissa, _BITS)), exponent - _BITS)


def _checked(certified: Callable[[float], bool], radius: float) -> float:
    """The radius, or the next smaller one tried that is certified; 0 if there is none."""
    back = _SHRINK
    while radius > 0 and not certified(radius):
        radius, back = radius * (1 - min(back, 1.0)), 4 * back
    return max(0.0, radius)


def _ratio(side: int, radius: float, rate: float, jitter: float) -> float | None:
    """sigma_1 / sigma_0 at its extreme, rounded away from 1, the safe side (Theorem 3.1); None: too far."""
    change = (rate * radius + jitter) * (1 + 2 * EPS)
    return math.exp(side * change) * (1 + side * 4 * EPS) if change < math.log(MOST_RATIO) - 0.1 else None


def _rest(lower: float) -> float:
    """1 - lower, rounded up; exact where lower >= 1/2."""
    rest = 1.0 - lower
    return rest if lower >= 0.5 else min(1.0, math.nextafter(rest, 2.0))


def _each(function: Any, arguments: Any) -> Floats:
    shape = arguments[0].shape
    values = [function(*map(float, row)) for row in zip(*(each.ravel() for each in arguments), strict=True)]
    return np.array(values, dtype=np.float64).reshape(shape)


def check_dim(dim: int) -> None:
    """Raise unless the dimension is a whole number that the analysis of errors covers."""
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or not 1 <= dim <= MOST_DIM:
        raise RequestError(
            f"expected dim to be a whole number from 1 to {MOST_DIM:,}, got {dim!r}; pass the pixels times "
            "channels of an input"
        )
