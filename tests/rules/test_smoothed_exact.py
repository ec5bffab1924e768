"""How often an adaptive radius is wrong, without chance: all ways the votes can fall from look to look.

# p shares of the classes at the input; "proved" the best radius of the looks so far; mass the chance of a state
# The procedure itself decides when to stop. What it does next follows from the counts and from "proved" alone, so
# that paths with the same two are followed together; the first test below shows that nothing is lost by it.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, multinomial

from sigmax import bounds
from sigmax.rules.sampling import Look, Sampling
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import every_ending, splits

SIGMA = 0.5
ALPHAS = (0.05, 1e-3)
BOUNDS = ("one-sided", "runner-up")
QUESTIONS = {
    "the radius": Sampling("adaptive"),
    "one target": Sampling("adaptive", targets=(0.25,)),
    "eleven targets": Sampling("adaptive", targets=tuple(np.linspace(0, 1, 11))),
    "tolerance": Sampling("adaptive", tolerance=0.1),
    "cap": Sampling("adaptive", cap=0.3),
}
SAMPLES = {"the radius": 300, "one target": 200}  # where few different radii are proved on the way


class Remembered(SmoothedRule):
    """The rule itself, which computes nothing twice."""

    @cache  # noqa: B019  # as long as the tests last
    def estimate(self, top, counts, alpha):
        return super().estimate(top, counts, alpha)

    @cache  # noqa: B019
    def _hope(self, top, counts, last, futility):
        return super()._possible(top, Seen(counts, (last,)), futility)

    def _possible(self, top, poll, futility):
        return 0.0 if poll.exhausted else self._hope(top, poll.counts, poll.schedule[-1], futility)


@dataclass(frozen=True)
class Seen:
    """What `_possible` reads of a poll."""

    counts: tuple[int, ...]
    schedule: tuple[Look, ...]
    exhausted: bool = False

    @property
    def cast(self):
        return sum(self.counts)


class Careless(Sampling):
    """All of alpha at every look."""

    def schedule(self, n, alpha):
        return tuple(Look(stop, alpha) for stop, _ in super().schedule(n, alpha))


def follow(rule, sampling, n, alpha, path):
    """The stage a path of counts ends with, or what is proved where more votes are asked for."""
    procedure = rule.estimating(0, n=n, alpha=alpha, sampling=sampling)
    next(procedure)
    try:
        for votes in path:
            procedure.send(votes)
    except StopIteration as end:
        return end.value, None
    return None, procedure.gi_frame.f_locals["best"].radius


def endings(rule, sampling, n, alpha, shares):
    """The radii that can be reported, and the chance of each for every row of `shares`: (radii, chances)."""
    shares = np.asarray(shares)
    shape = (n + 1,) * (rule.classes - 1)
    nothing = (0,) * rule.classes
    start = np.zeros((*shape, len(shares)))
    start[nothing[1:]] = 1.0
    states = {0.0: (start, {nothing: ()})}  # proved -> chance of the counts of all classes but the first, paths
    found: dict[float, np.ndarray] = {}
    stops = [look.stop for look in sampling.schedule(n, alpha)]
    for low, high in pairwise([0, *stops]):
        states = advance(states, high - low, shares)
        after: dict[float, tuple[np.ndarray, dict]] = {}
        for mass, paths in states.values():
            for counts, path in paths.items():
                stage, proved = follow(rule, sampling, n, alpha, path)
                chance = mass[counts[1:]]
                if stage is not None:
                    found[stage.radius] = found.get(stage.radius, 0.0) + chance
                else:
                    there, reached = after.setdefault(proved, (np.zeros_like(mass), {}))
                    there[counts[1:]] += chance
                    reached.setdefault(counts, path)
        states = after
    assert not states
    return np.array(list(found)), np.array(list(found.values()))


def advance(states, samples, shares):
    """The states after so many more votes, before the procedure has seen them."""
    votes = splits(samples, shares.shape[1])
    chances = multinomial.pmf(np.array(votes)[:, None], samples, shares[None])
    after = {}
    for proved, (mass, paths) in states.items():
        moved, reached = np.zeros_like(mass), {}
        for vote, chance in zip(votes, chances, strict=True):
            to = tuple(slice(k, None) for k in vote[1:])
            origin = tuple(slice(0, size - k) for size, k in zip(mass.shape, vote[1:], strict=False))
            moved[to] += mass[origin] * chance
        for counts, path in paths.items():
            for vote in votes:
                reached.setdefault(tuple(map(sum, zip(counts, vote, strict=True))), (*path, vote))
        after[proved] = moved, reached
    return after


def truth(shares) -> np.ndarray:
    """The radius that the shares themselves prove for class 0; below 0 where it does not lead."""
    shares = np.asarray(shares)
    return SIGMA / 2 * (ndtri(shares[:, 0]) - ndtri(shares[:, 1:].max(1)))


def wrongness(rule, sampling, n, alpha, shares) -> np.ndarray:
    """For every row of shares the chance that the reported radius is above 0 and above the truth."""
    radii, chances = endings(rule, sampling, n, alpha, shares)
    assert chances.sum(0) == pytest.approx(1.0, abs=1e-11)
    wrong = (radii[:, None] > 0) & (radii[:, None] > truth(shares)[None])
    return np.where(wrong, chances, 0.0).sum(0)


def pressing(rule, sampling, n, alpha, each) -> np.ndarray:
    """Shares of class 0 just below what a look can prove, where the radius errs most; of the last look the most."""
    tails = 1 if rule.bound == "one-sided" else 2
    found = [0.3, 0.5 - 1e-9, 0.5 + 1e-9, 0.75, 0.9, 0.99, 0.999]
    for stop, level in sampling.schedule(n, alpha):
        limits = bounds.lower(np.arange(stop + 1), stop, level / tails) if level else np.zeros(1)
        limits = limits[limits > 0.5] * (1 - 1e-9)
        found += list(limits[:: max(1, len(limits) // (each if stop < n else 3 * each))])
    return np.array(found)


def of_two(tops) -> np.ndarray:
    return np.stack([tops, 1 - tops], 1)


# Exactly


@pytest.mark.parametrize("name", QUESTIONS)
def test_following_paths_together_loses_none(name):
    """Against every path by itself, at so few samples that all can be listed."""
    rule, alpha, shares = Remembered.gaussian(sigma=SIGMA, classes=2), 0.5, of_two(np.array([0.55, 0.8, 0.95]))
    question = Sampling(**{**vars(QUESTIONS[name]), "first": 3, "last": 0.5})
    expected: dict[float, np.ndarray] = {}
    for path, stage in every_ending(
        lambda: rule.estimating(0, n=15, alpha=alpha, sampling=question), lambda ask: splits(ask.n, 2)
    ):
        chance = np.prod([binom.pmf(votes[0], ask.n, shares[:, 0]) for ask, votes in path], axis=0)
        expected[stage.radius] = expected.get(stage.radius, 0.0) + chance
    radii, chances = endings(rule, question, 15, alpha, shares)
    assert len(expected) > 3
    assert set(radii) == set(expected)
    for radius, chance in zip(radii, chances, strict=True):
        assert chance == pytest.approx(expected[radius], abs=1e-13)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_share_makes_a_radius_wrong_more_often_than_alpha(name, bound, alpha):
    rule, question, n = (
        Remembered.gaussian(sigma=SIGMA, classes=2, bound=bound),
        QUESTIONS[name],
        SAMPLES.get(name, 128),
    )
    tops = pressing(rule, question, n, alpha, each=6)
    worst = wrongness(rule, question, n, alpha, of_two(tops)).max()
    assert worst <= alpha
    tails = 1 if bound == "one-sided" else 2  # of two classes the runner-up needs only one of its two bounds
    assert worst > 0.5 * alpha / tails


@pytest.mark.parametrize(
    ("name", "alpha"), [("one target", 0.05), ("one target", 1e-3), ("eleven targets", 0.05), ("tolerance", 0.05)]
)
def test_a_schedule_that_gives_alpha_to_every_look_is_caught(name, alpha):
    rule, question, n = (
        Remembered.gaussian(sigma=SIGMA, classes=2),
        Careless(**vars(QUESTIONS[name])),
        SAMPLES.get(name, 128),
    )
    tops = pressing(rule, question, n, alpha, each=6)
    assert wrongness(rule, question, n, alpha, of_two(tops)).max() > 1.5 * alpha


@pytest.mark.parametrize("name", QUESTIONS)
def test_three_classes_are_not_proved_beyond_the_truth(name):
    """The rival changes from look to look, and the top class may have less than half of the votes."""
    rule, alpha = Remembered.gaussian(sigma=SIGMA, classes=3, bound="runner-up"), 0.05
    question = Sampling(**{**vars(QUESTIONS[name]), "first": 8, "growth": 1.5})
    shares = np.array(splits(20, 3))[:, :] / 20 * (1 - 1e-6) + 1e-6 / 3
    leads = shares[shares[:, 0] >= np.max(shares[:, 1:], axis=1) - 0.1]
    worst = wrongness(rule, question, 36, alpha, leads)
    assert 0 < worst.max() <= alpha
    assert (worst[leads[:, 0] < 0.5] > 0).any()


# Whatever the stopping rule: the chance that any look's bound is above the truth


def ever_above(schedule, p: float, tails: int) -> float:
    """By the chance of each count while no look has erred; a window of 12 deviations holds all but 1e-30."""
    alive, base, erred, before = np.ones(1), 0, 0.0, 0
    for stop, level in schedule:
        samples = stop - before
        half = 12 * np.sqrt(samples * p * (1 - p)) + 12
        votes = np.arange(max(0, int(samples * p - half)), min(samples, int(samples * p + half)) + 1)
        alive, base, before = np.convolve(alive, binom.pmf(votes, samples, p)), base + votes[0], stop
        first = bisect_left(range(base, base + len(alive)), True, key=partial(is_above, stop, level, p, tails))
        erred += alive[first:].sum()
        alive = alive[:first]
    assert erred + alive.sum() == pytest.approx(1.0, abs=1e-10)
    return float(erred)


def is_above(stop: int, level: float, p: float, tails: int, count: int) -> bool:
    """Whether so many votes prove what is not so: a share above p or, by the other bound, a rest below 1 - p."""
    high = bounds.lower(count, stop, level / tails) > p
    return high or (tails == 2 and bounds.upper(stop - count, stop, level / tails) < 1 - p)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("n", "tails"), [(10_000, 1), (10_000, 2), (100_000, 1)])
def test_no_stopping_rule_at_all_can_err_more_often_than_alpha(n, tails, alpha):
    schedule = QUESTIONS["one target"].schedule(n, alpha)
    assert len(schedule) > 20
    limits = bounds.lower(np.array([int(n * s) for s in (0.52, 0.6, 0.8, 0.97, 0.999, 1.0)]), n, schedule[-1].level)
    worst = max(ever_above(schedule, p, tails) for p in [0.5, 0.9, *(limits * (1 - 1e-9))])
    assert 0.8 * alpha / tails < worst <= alpha
    careless = [Look(stop, alpha) for stop, _ in schedule]
    assert ever_above(careless, 0.6, tails) > 2 * alpha
