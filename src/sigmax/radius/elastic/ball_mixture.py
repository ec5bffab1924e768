"""How likely a Gaussian vector lies in a ball, as a mixture of Poisson chances: for centres not far away."""

# X standard normal in R^N; centre at distance c; mu = c^2 / 2; m = radius^2 / 2; u = 2^-53
#
# P[|X - c|^2 <= 2m] = sum_j w_j * P[chi2_{N+2j} <= 2m], w_j the Poisson(mu) chances, and
# P[chi2_{N+2j} <= 2m] = sum over k = N/2 + j, N/2 + j + 1, ... of g_k, g_k = m^k e^-m / Gamma(k + 1).
#
# For even N the g_k with k = 0, 1, ... are the Poisson(m) chances and sum to 1; for odd N those with k = 1/2,
# 3/2, ... sum to erf(sqrt(m)) = P[chi2_1 <= 2m]. So both families are made from ratios of neighbours and divided
# by their sum: no Gamma function and no cancellation. All terms are positive: what is left out only lowers the
# result.
#
# Error. A term is reached from the largest one in at most K steps of two roundings each; dividing by the sum
# doubles that, cumulative sums and the scalar product add K u each: below 8 u (K_g + K_w), charged as 4 EPS (K_g
# + K_w). Ten and a half standard deviations and 60 terms are kept: by Chernoff's bound the rest weighs less than
# e^-50, also in the sums divided by. This, erf and erfc (1 ulp each, of chances that matter) are charged as 1e-13.

import math

import numpy as np
from scipy.special import erf, erfc

from sigmax.radius._checks import Floats
from sigmax.radius.normal import EPS

_SPREAD, _MORE = 10.5, 60  # kept on either side of the largest term: standard deviations, and terms
_REST = 1e-13


def ball_chances(dim: int, mu: float, m: float) -> tuple[float, float]:
    """Lower bounds of the chances to lie inside and outside of the ball, each next to the exact one.

    Both are relative: tiny chances keep their digits. Needs: mu, m >= 0 and exact; time and memory grow with
    sqrt(mu) + sqrt(m). Inside falls with mu and rises with m: round them accordingly.
    """
    odd = dim % 2
    first_w, w = _family(mu, 0)
    first_g, g = _family(m, odd)
    w = w / w.sum()
    g = g * ((float(erf(math.sqrt(m))) if odd else 1.0) / g.sum())
    bottom = float(erfc(math.sqrt(m))) if odd else 0.0  # what the half-integral family leaves to k = -1/2
    start = dim // 2 + first_w - first_g + np.arange(len(w))  # where the sum of N + 2j begins in g
    place = np.clip(start, 0, len(g))
    upward = np.append(np.cumsum(g[::-1])[::-1], 0.0)
    downward = np.append(0.0, np.cumsum(g)) + bottom
    kept = 1 - 4 * EPS * (len(w) + len(g)) - _REST
    return float(w @ upward[place]) * kept, float(w @ downward[place]) * kept


def _family(mean: float, odd: int) -> tuple[int, Floats]:
    """The first index and the terms mean^k / Gamma(k + 1), k = i + odd/2, up to a common factor."""
    reach = _SPREAD * math.sqrt(mean) + _MORE
    top = int(mean)
    first, last = max(0, math.floor(mean - reach)), math.ceil(mean + reach)
    k = np.arange(first, last + 1) + 0.5 * odd
    mode = top - first
    rising = np.cumprod(mean / k[mode + 1 :])
    falling = np.cumprod(k[mode:0:-1] / mean) if mean > 0 else np.empty(0)
    return first, np.concatenate([falling[::-1], [1.0], rising])
