"""What a radius in one norm implies for l-infinity: the largest cube inside the ball. It is no theorem of its own."""

# d numbers of an input; R radius of an l1 or l2 ball, inside of which lies the cube of half side R / d or R / sqrt(d)

import math

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.radius.normal import EPS

SHRINKS = ("l1", "l2")
LEAST = 1e-290  # below it doubles no longer round by a share of themselves


def implied_linf(radius: float, *, norm: str, dim: int) -> float:
    """The l-infinity radius that an l1 or l2 radius implies: R / d or R / sqrt(d), rounded down.

    A change of at most r in each of d numbers has the l1 norm d * r and the l2 norm sqrt(d) * r at most. Methods made
    for l-infinity certify further; of Gaussian smoothing no more is known that grows with d.
    """
    if not (is_number(radius) and radius >= 0):
        raise RequestError(f"radius must be a distance of at least 0; got {radius!r}")
    found = float(radius / stretch(norm, dim) * (1 - 4 * EPS))
    return found if found > LEAST else 0.0


def stretch(norm: str, dim: int) -> float:
    """How many times an l-infinity radius the radius in this norm must be."""
    if norm not in SHRINKS:
        raise RequestError(f"an l-infinity radius is implied by one in {' or '.join(SHRINKS)}; got {norm!r}")
    if not is_whole(dim) or dim < 1:
        raise RequestError(f"dim must be how many numbers an input has, such as 3072 for 3x32x32; got {dim!r}")
    return float(dim) if norm == "l1" else math.sqrt(dim)
