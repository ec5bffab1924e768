"""The radius of a network whose scores cannot move faster than the input does."""

# K Lipschitz constant of the score vector in the l2 norm; margin = leading score - strongest rival's

import math

from sigmax.errors import RequestError
from sigmax.radius._checks import distances
from sigmax.radius.normal import EPS

LAYERS = 32
LEAST_FAN_IN = 4096
FLOOR_32 = 2.0**-14  # of scores in 32 bits; measured on 12 orthogonal layers of 784: 2**-19


def rounding(dim: int, *, bits: int) -> float:
    """What a score of a network may be off by arithmetic, as a share of K * (|x| + sqrt(dim)) + |score|.

    Needs, in 64 bits: at most 32 layers of products and sums of at most n = max(dim, 4096) terms, the product of whose
    norms is at most K, with activations that do not round (ReLU, sorting), and offsets that move no layer's
    values by more than an input of pixels in [0, 1] does. In 32 bits: one such layer, that is an affine map.
    Why: with gamma = k * u / (1 - k * u), k = n + 2, a sum of n products and an offset errs by at most gamma times
    the sum of their sizes, in whatever order it is done. A layer W errs by gamma * | |W| |h| |, at most
    gamma * sqrt(n) * |W| * |h|, which later layers stretch to gamma * sqrt(n) * K * |x|; a single row needs no root.
    The factor 2 is for offsets, at most |score| + K * |x|. Normalised pixels are the reason for sqrt(dim).
    Source: Higham (2002), "Accuracy and stability of numerical algorithms", section 3.1.
    """
    if bits == 64:
        n = max(dim, LEAST_FAN_IN)
        return 2 * LAYERS * math.sqrt(n) * _gamma(n + 2, 2.0**-53)
    return max(FLOOR_32, 2 * _gamma(dim + 2, 2.0**-24))


def _gamma(k: int, unit: float) -> float:
    return k * unit / (1 - k * unit) if k * unit < 1 else 1e300


def lipschitz(margin: float, constant: float) -> float:
    """Radius within which the leading class stays in front: margin / (sqrt(2) * K), rounded down.

    Needs: |f(x) - f(y)| <= K * |x - y| for the vector f of scores, in the l2 norm, normalisation included.
    Why: the difference of two scores is f times a vector of length sqrt(2), so it moves by at most sqrt(2) * K * r.
    Source: Tsuzuku, Sato & Sugiyama (2018), "Lipschitz-margin training", Proposition 1.
    """
    (lead,) = distances([margin], "margin")
    if isinstance(constant, bool) or not isinstance(constant, int | float) or not 1e-100 <= constant <= 1e100:
        raise RequestError(
            f"expected a Lipschitz constant from 1e-100 to 1e100, got {constant!r}; pass that of the score vector"
        )
    return float(lead / (math.sqrt(2) * constant) * (1 - 4 * EPS))
