"""What every rule asks of the numbers it is given."""

import math
from numbers import Integral, Real

from sigmax.errors import RequestError

MOST_DRAWS = 10**9  # as far as the rounding of the bounds was measured
MOST_NOISE = 3.0  # more than any paper uses on pixels in [0, 1]


def check_draws(alpha: float, **draws: int) -> None:
    """Raise unless alpha is a probability and every number of draws a positive whole number."""
    if not (is_number(alpha) and 0 < alpha < 1):
        raise RequestError(
            f"alpha must lie strictly between 0 and 1 (the chance of a wrong certificate, 0.001 in the papers); "
            f"got {alpha!r}"
        )
    for name, value in draws.items():
        if not is_whole(value) or not 1 <= value <= MOST_DRAWS:
            raise RequestError(f"{name} must be a whole number of draws, from 1 to {MOST_DRAWS:,}; got {value!r}")


def is_number(value: object) -> bool:
    """A finite real number (numpy's count, truth values do not)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def is_whole(value: object) -> bool:
    """A whole number (numpy's count, truth values do not)."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def too_much_noise(sigma: float) -> str | None:
    """A warning where noise on pixels in [0, 1] leaves nothing of an image; None where it may be meant."""
    if not MOST_NOISE < sigma < math.inf:
        return None
    return f"sigma {sigma:g} is {sigma:g} times the pixel range [0, 1]; did you mean {sigma / 100:g}?"
