"""Rounding in print: our numbers never claim more than was proved, and others' are read with their rounding."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from sigmax.errors import RequestError
from sigmax.rules.certificate import rounded_down, rounded_up


def down(value: float, decimals: int) -> str:
    """`value` with `decimals` digits after the point, exactly rounded down; only for finite numbers."""
    return rounded_down(_finite(value, decimals), decimals)


def up(value: float, decimals: int) -> str:
    """The same rounded up, for a number that claims less the larger it is: the text is never below the float."""
    return rounded_up(_finite(value, decimals), decimals)


def _finite(value: float, decimals: int) -> float:
    if not math.isfinite(value) or decimals < 0:
        raise RequestError(f"expected a finite number and decimals >= 0; got {value!r} and {decimals!r}")
    return value


def share_down(percent: float, decimals: int = 1) -> str:
    """A share of inputs, 100 * k / n, rounded down; a share that needs no more digits prints as what it is.

    Two shares of up to a million inputs differ by far more than the nudge, which only undoes the float's own error.
    """
    return down(percent + 1e-9, decimals)


def share_up(percent: float) -> str:
    """The same rounded up: what is lost, and how far chance reaches."""
    return up(max(0.0, percent - 1e-9), 1)


def two_digits_up(value: float) -> str:
    """A small number such as a p-value in two digits, never less than it is: 0.00104 is 1.1e-3."""
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal(Decimal(_finite(value, 0)))
    return f"{rounded:.1e}"


def exact(radius: float) -> str:
    """The shortest text that reads back as this very number: two radii never look alike, and none looks larger."""
    return repr(float(radius) + 0.0).removesuffix(".0")  # + 0.0, since -0.0 is the radius 0


@dataclass(frozen=True)
class Precision:
    """To how many digits a column of numbers was rounded, as far as its texts show.

    Fixed: the same number of decimals everywhere (0.120). Otherwise significant digits, with trailing zeros
    dropped (0.12 of three digits), so that the last digit printed need not be the last digit kept.
    """

    digits: int
    fixed: bool

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Precision":
        """The precision of numbers printed one way; zeros say nothing, and without any it is three digits, as usual."""
        numbers = [number for number in map(Decimal, texts) if number.is_finite() and number]
        decimals = {_decimals(number) for number in numbers}
        if len(decimals) == 1:
            return cls(decimals.pop(), fixed=True)
        return cls(max((len(number.as_tuple().digits) for number in numbers), default=3), fixed=False)

    def slack(self, value: float) -> float:
        """Half a unit in the last digit kept: the number behind a printed `value` may lie this far from it."""
        if value == 0:
            return 0.0
        last = -self.digits if self.fixed else math.floor(math.log10(abs(value))) - self.digits + 1
        return 0.5 * 10.0**last

    def __str__(self) -> str:
        return f"{self.digits} {'decimals' if self.fixed else 'significant digits'}"


def _decimals(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)
