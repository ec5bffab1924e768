"""Problems of known truth on which every certifier errs about as often as it may: what `coverage.py` certifies.

# p share of the votes for the class; L, U bounds; R = sigma * Phi^-1(p) its radius; d the distance of the boundary
# Half-spaces in one direction under Gaussian noise: the theorems are tight there, so the true radius is what the
# shares themselves prove. A share is set just below the bound L that k of n votes give (`pressed`): then k votes or
# more claim too much, and they come with probability alpha, the level of L.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from math import exp
from typing import Any

from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import ncx2

from sigmax.bounds import table
from sigmax.radius.memory import Memory
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.certificate import Certificate
from sigmax.rules.elastic import SemiElasticRule
from sigmax.rules.memorized import MemorizedRule
from sigmax.rules.procedure import Answer, Question, Rule, asking_as
from sigmax.rules.routed.rule import Combination, DualRule
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

N0, N, N_PREDICT = 20, 250, 100
GAP = 1e-5  # how far a share lies below the bound: above every rounding, and next to nothing of alpha
FAR = 1 - 1e-9  # a share that no votes of so few tell from 1
ASKING = Sampling("adaptive", targets=(1.0,))  # its levels; the target itself comes with the problem

Shares = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Problem:
    """One input: the rule, by part the shares of the votes there and the noise it gets, its class and its radius.

    paid: what part of alpha the bounds have whose failure makes a certificate (or prediction) wrong here.
    """

    rule: Any  # a Rule; of a memory its own
    shares: Shares
    label: int  # -1: no class leads
    radius: float
    paid: float
    sigma: Mapping[str, float] = field(default_factory=dict)
    sampling: Sampling = FIXED

    def certifying(self, alpha: float) -> Generator[Question, Answer, Any]:
        """The procedure that certifies the input."""
        return self.rule.certifying(n0=N0, n=N, alpha=alpha, sampling=self.sampling)  # type: ignore[no-any-return]

    def predicting(self, alpha: float) -> Generator[Question, Answer, Any]:
        """The procedure that predicts it."""
        return self.rule.predicting(n=N_PREDICT, alpha=alpha)  # type: ignore[no-any-return]

    def wrong(self, found: Any) -> bool:
        """Whether a certificate or a prediction claims what is not true."""
        return found.predicted is not None and (
            found.predicted != self.label or getattr(found, "radius", 0.0) > self.radius
        )


Build = Callable[[float, bool], Problem]


def pressed(alpha: float, adaptive: bool, near: float = 0.9) -> float:
    """The largest share up to `near` that lies just below a bound at the level of the last look."""
    level = ASKING.last_level(N, alpha) if adaptive else alpha
    return max(p for k in range(N + 1) if (p := table.lower(k, N, level)) <= near) * (1 - GAP)


def asking(radius: float, adaptive: bool) -> Sampling:
    """Adaptive: whether a radius just above the true one holds, which any look may claim; selection has looks too."""
    return Sampling("adaptive", targets=(radius * (1 + GAP / 100),), first0=4) if adaptive else FIXED


EVEN, SURE = (0.5 - 1e-9, 0.5 + 1e-9), (1 - FAR, FAR)
PLAIN = SmoothedRule.gaussian(0.5, 2)


def smoothed(alpha: float, adaptive: bool) -> Problem:
    """A half-space."""
    p = pressed(alpha, adaptive, near=0.9 if adaptive else 0.97)
    rule, d = SmoothedRule.gaussian(0.5, 2), 0.5 * float(ndtri(p))
    return Problem(rule, {"": (1 - p, p)}, 1, d, 1.0, sampling=asking(d, adaptive))


def runner_up(alpha: float, adaptive: bool) -> Problem:
    """Three slabs: the outer two meet within the middle one, where their shares of the votes are equal."""
    p = pressed(alpha / 2, adaptive, near=0.55)
    q = 0.98 - p  # of the other outer slab; the middle one has less than either where they meet
    rule, d = SmoothedRule.gaussian(0.5, 3, bound="runner-up"), 0.25 * float(ndtri(p) - ndtri(q))
    return Problem(rule, {"": (q, 1 - p - q, p)}, 2, d, 1.0, sampling=asking(d, adaptive))


def edge_at(d: float, alpha: float, adaptive: bool, threshold: float = 0.5) -> tuple[SmoothedRule, float]:
    """A half-space that falls to a threshold at d, under the noise that puts its share just below a bound too."""
    p = pressed(alpha, adaptive)
    return SmoothedRule.gaussian(d / float(ndtri(p) - ndtri(threshold)), 2), p


def dual(kind: Combination) -> Build:
    """At d the route changes, and the expert that is in charge from there on sees the other class from d on."""

    def build(alpha: float, adaptive: bool) -> Problem:
        router = SmoothedRule.gaussian(1.0, 2)
        split = DualRule(router, (router, router), kind).alpha_split(alpha)
        route = pressed(split.router, adaptive)
        d = float(ndtri(route))
        other, p = edge_at(d, split.experts[0], adaptive)
        rule = DualRule(router, (other, SmoothedRule.gaussian(3.0, 2)), kind)
        shares = {"router": (1 - route, route), "expert-0": (1 - p, p), "expert-1": SURE}
        # By the rule "min" the other expert has no say; by consensus its bound is one more that can fail.
        paid = (split.router + (split.experts[0] if kind == "consensus" else 0.0)) / alpha
        return Problem(rule, shares, 1, d, paid, sampling=asking(d, adaptive))

    return build


def selective(alpha: float, adaptive: bool) -> Problem:
    """A level that answers up to d and defers from there on; below it the other class, also from d on."""
    level = SmoothedRule.gaussian(1.0, 2, defers=True)
    first, second = CascadeRule((level,), PLAIN).alpha_split(alpha)
    p = pressed(first / 2, adaptive)
    d = float(ndtri(p))
    last, below = edge_at(d, second, True)
    shares = {"level-0": (1e-9, p, 1 - p - 1e-9), "last": (1 - below, below)}
    paid = (first / 2 + second) / alpha
    return Problem(CascadeRule((level,), last), shares, 1, d, paid, sampling=asking(d, adaptive))


def multiscale(alpha: float, adaptive: bool) -> Problem:
    """Three noise levels of classifiers that never defer: up to d each of them answers, from d on none does."""
    split = CascadeRule((PLAIN, PLAIN), PLAIN).alpha_split(alpha)
    paid = split[0] / 2, split[1] / 2, split[2]
    thresholds = 0.7, 0.6, 0.5
    d = 0.5
    # What is below a level may claim at a small look also where sampling is fixed, and so has the levels of looks.
    early = adaptive, True, True
    parts = [edge_at(d, *one) for one in zip(paid, early, thresholds, strict=True)]
    rule = CascadeRule((parts[0][0], parts[1][0]), parts[2][0], thresholds[:2])
    names = "level-0", "level-1", "last"
    shares = {name: (1 - p, p) for name, (_, p) in zip(names, parts, strict=True)}
    return Problem(rule, shares, 1, d, sum(paid) / alpha, sampling=asking(d, adaptive))


RATE, DIM, SIGMA = 0.1, 64, 0.5


def semi_elastic(alpha: float, adaptive: bool) -> Problem:
    """A ball that the noise outgrows at d: sigma(x) rises by e^(rate d) there, and the ball has half of the votes.

    The ball is the worst set for these two points, so the theorem is tight. Its shares are chances of non-central
    chi-square, from scipy.
    """
    p = pressed(alpha, adaptive)
    d = float(brentq(lambda away: ball_share(away) - p, 1e-3, 3.0, xtol=1e-14))
    rule = SemiElasticRule(
        {"field": "vouched", "function": "worst", "rate": RATE, "jitter": 0.0, "proved": False}, DIM, classes=2
    )
    return Problem(rule, {"": (1 - p, p)}, 1, d, 1.0, sigma={"sigma": SIGMA}, sampling=asking(d, adaptive))


def ball_share(d: float) -> float:
    """The share at the input of the worst ball that has half of the votes at distance d, under the noise there."""
    there = SIGMA * exp(RATE * d)
    centre = d * SIGMA**2 / (there**2 - SIGMA**2)  # behind the input
    square = there**2 * float(ncx2.ppf(0.5, DIM, ((d + centre) / there) ** 2))
    return float(ncx2.cdf(square / SIGMA**2, DIM, (centre / SIGMA) ** 2))


@dataclass(frozen=True)
class Remembered(Problem):
    """A second input of the other class follows at distance 3d/2, whose own ball would reach into the first one's.

    Wrong: the first radius exceeds that of the smoothed classifier it was certified by, or the two answers contradict.
    """

    def certifying(self, alpha: float) -> Generator[Question, Answer, Any]:
        """Both inputs, in one memory."""
        memory, answers = Memory(1, dtype=float), list[Certificate]()
        for name, x in (("first", 0.0), ("second", 1.5 * self.radius)):
            found = yield from asking_as(name, super().certifying(alpha))
            settled, balls = memory.explain([x], *self.rule.proposed(found))
            answers.append(self.rule.settled(found, settled, balls, memory.error))
            if settled.label is not None:
                memory.add([x], settled.label, settled.radius)
        return answers

    def wrong(self, found: Any) -> bool:
        """The first beyond its own truth, or both of different classes and not apart."""
        first, second = found
        contradict = None not in (first.predicted, second.predicted) and first.predicted != second.predicted
        return super().wrong(first) or (contradict and first.radius + second.radius > 1.5 * self.radius)


def memorized(alpha: float, adaptive: bool) -> Problem:
    """A half-space at the noise that the first input gets, and all votes for the other class at the second."""
    p = pressed(alpha, adaptive)
    rule, d = MemorizedRule(0.5, 0.25, 1.0, 2), 0.5 * float(ndtri(p))
    shares = {"first": (1 - p, p), "second": SURE[::-1]}
    sigma = {"first/sigma": 0.5, "second/sigma": 1.0}
    return Remembered(rule, shares, 1, d, 1.0, sigma=sigma, sampling=asking(d, adaptive))


# Predictions: wrong where another class is returned than the one that leads, by however little


def predicting(rule: Rule, shares: Shares, paid: float, label: int = 1) -> Build:
    """The input lies at the boundary."""
    return lambda alpha, adaptive: Problem(rule, shares, label, 0.0, paid, sigma={"sigma": SIGMA})


PREDICTIONS: dict[str, Build] = {
    "Smoothed": predicting(PLAIN, {"": EVEN}, 1 / 2),  # the test is two-sided
    "Smoothed, selective": predicting(SmoothedRule.gaussian(0.5, 2, defers=True), {"": (0.5, 0.5, 0.0)}, 1.0, label=-1),
    "Dual, min": predicting(
        DualRule(PLAIN, (PLAIN, PLAIN), "min"), {"router": EVEN, "expert-0": SURE[::-1], "expert-1": SURE}, 1 / 4
    ),
    "Dual, consensus": predicting(
        DualRule(PLAIN, (PLAIN, PLAIN)), {"router": EVEN, "expert-0": SURE[::-1], "expert-1": SURE}, 1 / 2
    ),
    "Cascade, selective level": predicting(
        CascadeRule((SmoothedRule.gaussian(1.0, 2, defers=True),), PLAIN),
        {"level-0": (0.0, 0.5 + 1e-9, 0.5 - 1e-9), "last": SURE[::-1]},
        1 / 2,
    ),
    "Multiscale": predicting(
        CascadeRule((SmoothedRule.gaussian(1.0, 2),), PLAIN, 0.7),
        {"level-0": (0.3 - 1e-9, 0.7 + 1e-9), "last": SURE[::-1]},
        1 / 2,
    ),
    "SemiElastic": predicting(semi_elastic(0.05, False).rule, {"": EVEN}, 1 / 2),
    "Memorized": predicting(MemorizedRule(0.5, 0.25, 1.0, 2), {"": EVEN}, 1 / 2),
}
CERTIFICATES: dict[str, Build] = {
    "Smoothed, one-sided": smoothed,
    "Smoothed, runner-up": runner_up,
    "Dual, min": dual("min"),
    "Dual, consensus": dual("consensus"),
    "Cascade, selective level": selective,
    "Multiscale": multiscale,
    "SemiElastic": semi_elastic,
    "Memorized": memorized,
}
