"""What counts as a number in options and files."""

import math
from numbers import Integral, Real


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
