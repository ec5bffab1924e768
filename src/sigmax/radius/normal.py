"""The standard normal quantile Phi^-1 with its rounding on the safe side."""

import numpy as np
from scipy.special import ndtri

from sigmax.radius._checks import Floats

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 8 * EPS  # of scipy's ndtri; less than 3 EPS was measured against Arb, for p from 1e-300 to 1 - 1e-16


def quantile_below(p: Floats) -> Floats:
    """Phi^-1(p) or the least bit less: -inf at 0, inf at 1, 0 at 1/2."""
    z: Floats = ndtri(p)
    below: Floats = z * (1 - np.copysign(ROUNDING, z))
    return below


def quantile_above(p: Floats) -> Floats:
    """Phi^-1(p) or the least bit more: -inf at 0, inf at 1, 0 at 1/2."""
    z: Floats = ndtri(p)
    above: Floats = z * (1 + np.copysign(ROUNDING, z))
    return above
