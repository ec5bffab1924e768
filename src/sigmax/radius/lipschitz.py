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
    if isinstance(constant, bool) or not isinstance(constant, int | float) or not 1e-100 <= constant <= 1e100:
        raise RequestError(
            f"expected a Lipschitz constant from 1e-100 to 1e100, got {constant!r}; pass that of the score vector"
        )
    return float(lead / (math.sqrt(2) * constant) * (1 - 4 * EPS))
