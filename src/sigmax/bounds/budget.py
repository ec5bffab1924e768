"""Alpha as money: what one claim may spend on the bounds it is made of."""

from fractions import Fraction
from math import inf, nextafter
from numbers import Real
from typing import NamedTuple

from sigmax.errors import RequestError

_NOTHING = Fraction(0)
_ROUNDING = Fraction(1, 10**9)  # a request this little over what is left, relatively, is float rounding


class Spent(NamedTuple):
    """One line of the ledger: the chance of error spent, and on what."""

    on: str
    alpha: float


class Budget:
    """The chances of error handed out sum to at most alpha, exactly: by the union bound so does the claim's.

    Needs: every bound that may be used pays before its samples are looked at; independence is not needed.
    The sums are kept as fractions, since those of floats can round down.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = _positive(alpha, "alpha")
        if self.alpha >= 1:
            raise RequestError(
                f"expected 0 < alpha < 1, got {alpha}; alpha is the chance of a wrong claim: 0.001 is usual"
            )
        self._left = Fraction(self.alpha)
        self._ledger: list[Spent] = []

    def spend(self, alpha: float, *, on: str) -> float:
        """Spend alpha on a bound and write it down; what is left if alpha is over it by rounding alone.

        Returns the amount spent, which is what the bound must be computed at.
        """
        amount = _positive(alpha, "the amount to spend")
        # All of it, as a plain certificate spends at once: then no fraction need be compared.
        if (not self._ledger and amount == self.alpha) or amount == self._left:
            self._left = _NOTHING
            self._ledger.append(Spent(on, amount))
            return amount
        asked = Fraction(amount)
        spent = min(asked, Fraction(self.left))
        if asked - spent > asked * _ROUNDING:
            raise RequestError(f"expected at most {self.left} for {on!r}, got {alpha}: {self._history()}; ask for less")
        self._left -= spent
        self._ledger.append(Spent(on, float(spent)))
        return float(spent)

    def share(self, parts: int) -> float:
        """An equal share of what is left, rounded down: spending it parts times always fits."""
        if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
            raise RequestError(
                f"expected a whole number of parts >= 1, got {parts!r}; count the bounds still to be paid"
            )
        share = _rounded_down(self._left / parts)
        if share == 0:
            raise RequestError(f"expected something left to share, got nothing: {self._history()}; spend less before")
        return share

    @property
    def left(self) -> float:
        """What may still be spent, rounded down."""
        return _rounded_down(self._left)

    @property
    def spent(self) -> float:
        """What has been spent, rounded up."""
        return abs(_rounded_down(self._left - Fraction(self.alpha)))

    @property
    def ledger(self) -> tuple[Spent, ...]:
        """What was spent on each bound, in order."""
        return tuple(self._ledger)

    def __repr__(self) -> str:
        return f"Budget({self.alpha}, left={self.left}; {self._history()})"

    def _history(self) -> str:
        entries = ", ".join(f"{entry.alpha} on {entry.on!r}" for entry in self._ledger)
        return f"of {self.alpha}, {entries or 'nothing'} was spent"


def _positive(value: object, name: str) -> float:
    # Plain floats first: every input asks several times, and abstract classes are slow to ask.
    real = type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))
    if not real or not 0 < float(value) < inf:  # type: ignore[arg-type]  # a real number, as was seen
        raise RequestError(
            f"expected {name} to be a positive number, got {value!r}; a bound at alpha = 0 proves nothing"
        )
    return float(value)  # type: ignore[arg-type]


def _rounded_down(value: Fraction) -> float:
    """The largest float that is not above the value."""
    nearest = float(value)
    return nextafter(nearest, -inf) if Fraction(nearest) > value else nearest
