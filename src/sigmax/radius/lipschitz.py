"""The radius of a network whose scores cannot move faster than the input does."""

# K Lipschitz constant of the score vector in the l2 norm; margin = leading score - strongest rival's

import math

from sigmax.errors import RequestError
from sigmax.radius._checks import distances
from sigmax.radius.normal import EPS


def lipschitz(margin: float, constant: float) -> float:
    """Radius within which the leading class stays in front: margin / (sqrt(2) * K), rounded down.

    Needs: |f(x) - f(y)| <= K * |x - y| for the vector f of scores, in the l2 norm, normalisation included.
    Why: the difference of two scores is f times a vector of length sqrt(2), so it moves by at most sqrt(2) * K * r.
    Source: Tsuzuku, Sato & Sugiyama (2018), "Lipschitz-margin training", Proposition 1.
    """
    (lead,) = distances([margin], "margin")
    if not (isinstance(constant, int | float) and 0 < constant < math.inf):
        raise RequestError(f"expected the Lipschitz constant to be positive and finite, got {constant!r}")
    return float(lead / (math.sqrt(2) * constant) * (1 - 4 * EPS))
