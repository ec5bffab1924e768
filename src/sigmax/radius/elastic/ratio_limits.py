"""How far two noise levels may differ at all: the curse of dimensionality of input-dependent noise."""

# s = sigma_1^2 / sigma_0^2; rest = 1 - p_A; N dimension

import math
from typing import NamedTuple

from scipy.special import gammainccinv, gammaincinv

from sigmax.errors import RequestError
from sigmax.radius._checks import probability
from sigmax.radius.elastic.semi_elastic import check_dim


class RatioLimits(NamedTuple):
    """The least and the greatest sigma_1 / sigma_0 that is not excluded."""

    least: float
    greatest: float


def ratio_limits(lower: float, dim: int) -> RatioLimits:
    """Ratios of noise levels outside of which no two points can be certified against each other, however near.

    They serve to plan, not to certify: rounded to nearest. Source: Sukenik et al. (2022), Theorem 2.4 and Table 1:
    nothing is certified if log(s) + 1 - s < 2 log(1 - p_A) / N, nor for s > 1 if so with s * (N - 1) / N for s.
    """
    from scipy.optimize import brentq

    rest = _checked_rest(lower, dim)
    depth = -2 * math.log(rest) / dim
    bottom = brentq(lambda w: math.expm1(w) - w - depth, -depth - 1, 0.0, xtol=1e-15)
    top = brentq(lambda w: math.expm1(w) - w - depth, 0.0, math.sqrt(2 * depth) + 1e-9, xtol=1e-15)
    widened = top + math.log(dim / (dim - 1)) if dim > 1 else math.inf
    return RatioLimits(math.exp(bottom / 2), math.exp(widened / 2))


def sharp_ratio_limits(lower: float, dim: int) -> RatioLimits:
    """The same, sharp: where xi reaches 1/2 at distance 0. Ratios inside can be certified, close by.

    Why: at distance 0 the worst ball lies about the input itself, and xi is a chi-square chance of a chi-square
    quantile.
    """
    rest = _checked_rest(lower, dim)
    median = gammaincinv(dim / 2, 0.5)
    inner, outer = gammaincinv(dim / 2, rest), gammainccinv(dim / 2, rest)
    return RatioLimits(math.sqrt(inner / median), math.sqrt(outer / median))


def _checked_rest(lower: float, dim: int) -> float:
    check_dim(dim)
    rest = 1 - float(probability(lower, "lower"))
    if not 0 < rest < 0.5:
        raise RequestError(f"expected 1/2 < lower < 1, got {lower!r}; pass a bound of p_A that certifies something")
    return rest
