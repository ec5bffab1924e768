"""An oracle: the radius under changing noise by a Renyi divergence, simpler and smaller than the library's."""

# P0 = N(0, I) at the input, P1 = N(r, s^2 I) at the adversary, r the distance in units of sigma_0; A, B = 1 - A
# bounds of p_A and of the rest; a the order of the divergence; eps = 1/s^2 - 1; u = 2^-53

import math
from collections.abc import Callable

import numpy as np

from sigmax.radius._checks import Floats, noise, probability, spans
from sigmax.radius.elastic.semi_elastic import check_dim
from sigmax.radius.gaussian import gaussian
from sigmax.radius.normal import EPS

ORDERS = np.concatenate([np.geomspace(1e-3, 0.99, 60), 1 + np.geomspace(1e-2, 1e4, 140)])
_STEPS = 60  # halvings of the radius' range


def renyi(sigma: float, lower: float, rate: float, dim: int) -> float:
    """Radius under `rate`-semi-elastic noise from Renyi divergences of two hundred orders; rounded down.

    Never above `semi_elastic`, which is tight; it needs no integral, and so checks the other. Scalars only.

    Why: if A loses its majority at the adversary, its chance q there is at most 1/2. Seeing only whether A was
    named cannot raise a divergence, so D_a(P1 || P0) >= D_a((q, 1-q) || (A, B)), which is least at q = 1/2:
    (log(A^(1-a) + B^(1-a)) - a log 2) / (a - 1). Where D_a(P1 || P0) is smaller, A keeps its majority. So xi <=
    1/2 there, and noise levels in between are covered as in `semi_elastic`.
    Any order a > 0 other than 1, below s^2 / (s^2 - 1) if s > 1, gives a valid bound: a grid of orders costs
    tightness only.
    Source: Li et al. (2019); Sukenik et al. (2022), Lemma B.3 and Theorem B.5.
    """
    check_dim(dim)
    scale, bound = float(noise(sigma)), float(probability(lower, "lower"))
    speed = float(spans(rate, "rate")) * scale * (1 + EPS)
    constant = gaussian(scale, bound)
    if constant in (0.0, math.inf):
        return constant

    def certified(r: float) -> bool:
        change = speed * r * (1 + 2 * EPS)
        return change < 9 and all(
            _keeps(r, math.exp(side * change) * (1 + side * 4 * EPS), bound, dim) for side in (1, -1)
        )

    r = _last(certified, constant / scale)
    return min(constant, r * scale * (1 - 2 * EPS))


def _last(certified: Callable[[float], bool], most: float) -> float:
    """The greatest number found, by halving, that is certified; 0 if none is."""
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if certified(middle) else (low, middle)
    return low


def _keeps(r: float, s: float, lower: float, dim: int) -> bool:
    """Whether some order proves that A keeps its majority at distance r."""
    finite = ORDERS * (s * s - 1) < (1 - 1e-9) * s * s  # the divergence of these orders
    a = ORDERS[finite]
    eps = (1 - s) * (1 + s) / (s * s)
    inner, outer = np.log1p(a * eps), a * np.log1p(eps)
    divergence = a * r * r / (2 * s * s * (1 + a * eps)) + dim / 2 * (inner - outer) / (1 - a)
    # The logarithms cancel: to first order in eps nothing is left of them. 1 + a eps may be small, and so inexact.
    rounding = 16 * EPS * (dim / 2 * (abs(inner) + abs(outer) + abs(a * eps) / (1 + a * eps)) / abs(1 - a))
    rounding += divergence * 64 * EPS * (1 + abs(a * eps) / (1 + a * eps))
    return bool(np.any(divergence + rounding < _needed(a, lower)))


def _needed(a: Floats, lower: float) -> Floats:
    """The least divergence at which A can lose its majority, rounded down."""
    # log(A^(1-a) + B^(1-a)), the larger power taken out; A and B = 1 - A are exact for A >= 1/2.
    large, small = (1 - a) * math.log1p(-lower), (1 - a) * math.log(lower)
    total = np.logaddexp(large, small)
    least: Floats = (total - a * math.log(2)) / (a - 1)
    return least - 32 * EPS * (abs(large) + abs(small) + abs(total) + a) / abs(a - 1)
