"""A fault for every row of `coverage.py`: each is one that a certifier might have, and breaks alpha itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from scipy.special import ndtri

from sigmax import radius
from sigmax.bounds import table
from sigmax.radius.memory import Memory, Settled
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.elastic import Elastic
from sigmax.rules.routed.parts import AlphaSplit
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import Look, Sampling
from sigmax.rules.smoothed import SmoothedRule


@dataclass(frozen=True)
class Mutant:
    """What is put in the place of a method, or how many times alpha is spent."""

    name: str
    target: Any = None
    attribute: str = ""
    value: Any = None
    overspends: float = 1.0

    @contextmanager
    def applied(self) -> Iterator[None]:
        """With the fault in place."""
        if self.target is None:
            yield
            return
        with patch.object(self.target, self.attribute, self.value):
            yield


def _wald(self: SmoothedRule, k: int, rival: int, n: int, alpha: float) -> tuple[float, None]:
    p = k / n
    return max(0.0, p + float(ndtri(alpha)) * (p * (1 - p) / n) ** 0.5), None


def _unpaid_rival(self: SmoothedRule, k: int, rival: int, n: int, alpha: float) -> tuple[float, float]:
    return table.lower(k, n, alpha), rival / n


def _dual_overspends(self: DualRule, alpha: float) -> AlphaSplit:
    return AlphaSplit(4 * alpha / 2, (4 * alpha / 2,) * len(self.experts))


def _dual_unshared(self: DualRule, alpha: float) -> AlphaSplit:
    return AlphaSplit(alpha, (alpha,) * len(self.experts))


def _cascade_unshared(self: CascadeRule, alpha: float) -> tuple[float, ...]:
    return (alpha,) * (len(self.levels) + 1)


def _constant_noise(self: Elastic, lower: float, upper: float | None) -> float:
    return radius.gaussian(self.sigma, lower)


def _forgets(self: Memory, x: object, label: int | None, proposed: float) -> tuple[Settled, tuple[()]]:
    return Settled(label, proposed, "kept"), ()


_schedule = Sampling.schedule


def _careless(self: Sampling, n: int, alpha: float) -> tuple[Look, ...]:
    return tuple(Look(stop, alpha) for stop, _ in _schedule(self, n, alpha))


SHARED, TWICE = "alpha is not shared among the parts", "every part spends twice alpha"
CARELESS = Mutant("every look spends all of its part", Sampling, "schedule", _careless)
GENEROUS = Mutant("every look spends twice its part", Sampling, "schedule", _careless, overspends=2.0)
CERTIFIERS = {
    "Smoothed, one-sided": Mutant("a normal approximation as bound", SmoothedRule, "_bounds", _wald),
    "Smoothed, runner-up": Mutant("the rival's share without a bound", SmoothedRule, "_bounds", _unpaid_rival),
    "Dual, min": Mutant("route and class spend 2 alpha each", DualRule, "alpha_split", _dual_overspends),
    "Dual, consensus": Mutant(SHARED, DualRule, "alpha_split", _dual_unshared),
    "Cascade, selective level": Mutant(TWICE, CascadeRule, "alpha_split", _cascade_unshared, overspends=2.0),
    "Multiscale": Mutant(TWICE, CascadeRule, "alpha_split", _cascade_unshared, overspends=2.0),
    "SemiElastic": Mutant("the radius of constant noise", Elastic, "reach", _constant_noise),
    "Memorized": Mutant("the memory is not asked", Memory, "explain", _forgets),
}
HALVED = ("Smoothed, runner-up", "Dual, min", "Dual, consensus")  # several bounds, of which not all can fail at once
PREDICTORS = (
    "Smoothed", "Smoothed, selective", "Dual, min", "Dual, consensus", "Cascade, selective level", "Multiscale",
    "SemiElastic", "Memorized",
)  # fmt: skip
MUTANTS: dict[tuple[str, str], Mutant] = {
    **{(scheme, "fixed"): mutant for scheme, mutant in CERTIFIERS.items()},
    **{(scheme, "adaptive"): GENEROUS if scheme in HALVED else CARELESS for scheme in CERTIFIERS},
    **{(scheme, "predict"): Mutant("asked at 8 alpha", overspends=8.0) for scheme in PREDICTORS},
}
