"""How often a routed certificate is wrong, without chance: every way the votes can fall, with its probability.

# q, p_0, p_1 shares of route 1 and of class 1 at each expert; the truth is what these shares prove with no bounds
"""

from functools import lru_cache
from math import prod

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, multinomial

from sigmax import bounds
from sigmax.rules.certificate import Role
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import JointCounts, JointRequest, ScoreRequest, Scores
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import every_ending, splits

SHARED = 4  # samples, where those of router and expert are the same
N0, N, ALPHA = 1, 8, 0.6  # few enough to list all, and an alpha at which eight votes prove something
NOISE = 1.0, 0.5, 0.8  # of the router and its two experts
PARTS = {"router": 0, "expert-0": 1, "expert-1": 2}


@pytest.fixture(scope="module", params=["min", "consensus"])
def endings(request):
    """Votes of router and experts in selection and estimation (-1: not asked), class and radius of each ending."""
    router, *experts = (SmoothedRule.gaussian(sigma=s, classes=2) for s in NOISE)
    rule = DualRule(router, tuple(experts), request.param)
    rows = []
    for path, found in every_ending(
        lambda: rule.certifying(n0=N0, n=N, alpha=ALPHA), lambda question: splits(question.n, 2)
    ):
        row = np.full((3, 2), -1)
        for question, answer in path:
            row[PARTS[question.part], int(question.role is Role.ESTIMATION)] = answer[1]
        rows.append((row, -1 if found.predicted is None else found.predicted, found.radius))
    votes, classes, radii = zip(*rows, strict=True)
    return np.array(votes), np.array(classes), np.array(radii)


def chances(votes, shares) -> np.ndarray:
    """The probability of each ending."""
    total = np.ones(len(votes))
    for part, share in enumerate(shares):
        for stage, n in enumerate((N0, N)):
            seen = votes[:, part, stage]
            total *= np.where(seen < 0, 1.0, binom.pmf(seen, n, share))
    return total


def truth(shares) -> tuple[int, float]:
    """Class and radius of the routed classifier, as far as its shares at the input tell."""
    q, *p = shares
    route = int(q > 0.5)
    reach = [0.0 if j == route else NOISE[0] * abs(ndtri(q)) for j in (0, 1)]
    radii = [sigma * abs(ndtri(share)) for sigma, share in zip(NOISE[1:], p, strict=True)]
    labels = [int(share > 0.5) for share in p]
    agree = labels[0] == labels[1]
    limits = [max(d, r) if agree or j == route else d for j, (d, r) in enumerate(zip(reach, radii, strict=True))]
    return labels[route], min(limits)


def worst_shares(level: float) -> list[float]:
    """Just below each bound, where the count that gives it and all larger ones err; and mirrored."""
    below = [bounds.lower(k, N, level) * (1 - 1e-9) for k in range(N // 2, N + 1)]
    near = [share for share in below if share > 0.5] + [0.5 + 1e-9, 0.97]
    return [*near, *(1 - share for share in near)]


def test_every_ending_is_counted(endings):
    votes, _, _ = endings
    for shares in ((0.5, 0.5, 0.5), (0.9, 0.2, 0.7)):
        assert chances(votes, shares).sum() == pytest.approx(1.0, abs=1e-12)


def test_no_shares_make_a_certificate_wrong_more_often_than_alpha(endings):
    votes, classes, radii = endings
    worst = 0.0
    for q in worst_shares(ALPHA / 2):
        for p in worst_shares(ALPHA / 4):
            for other in (p, 1 - p, *worst_shares(ALPHA / 2)[::3]):
                shares = (q, p, other)
                here, exact = truth(shares)
                wrong = (classes >= 0) & ((classes != here) | (radii > exact))
                worst = max(worst, chances(votes, shares)[wrong].sum())
    assert worst <= ALPHA
    assert worst > ALPHA / 4  # one bound alone, at half of alpha, comes near: the test can fail


# Router and expert on the same samples, as where they share a denoiser


def together(q: float, p: float, how: str) -> np.ndarray:
    """Chances that a sample is for route and class 00, 01, 10, 11, where q are for route 1 and p for class 1."""
    both = {"alike": min(q, p), "apart": max(0.0, q + p - 1), "independent": q * p}[how]
    return np.array([1 - q - p + both, p - both, q - both, both])


@pytest.fixture(scope="module", params=[1, SHARED], ids=["estimation", "selection"])
def shared_endings(request):
    """Of each ending the questions that were asked at once or alone, their answers, class and radius.

    n0 = n is where the router's estimation is cast on the samples of the expert's selection.
    """
    n0 = request.param
    router, *experts = (SmoothedRule.gaussian(sigma=s, classes=2) for s in NOISE)
    rule = DualRule(router, tuple(experts), "consensus", frozenset({0, 1}))

    def possible(question):
        if not isinstance(question, JointRequest):
            return splits(question.n, 2)
        fallen = splits(question.n, 4)
        return [JointCounts(((a + b, c + d), (a + c, b + d))) for a, b, c, d in fallen]

    return list(every_ending(lambda: rule.certifying(n0=n0, n=SHARED, alpha=ALPHA), possible))


def chance_of_votes(question, answer, shares, how) -> float:
    """Of the counts of one question; of a joint one by all ways of falling together that give both counts."""
    q, *p = shares
    if not isinstance(question, JointRequest):
        return float(binom.pmf(answer[1], question.n, shares[PARTS[question.part]]))
    cells = together(q, p[PARTS[question.asks[1].part] - 1], how)
    (_, routes), (_, classes) = answer.counts
    n = question.n
    ways = [
        (n - routes - classes + both, classes - both, routes - both, both)
        for both in range(max(0, routes + classes - n), min(routes, classes) + 1)
    ]
    return float(sum(multinomial.pmf(way, n, cells) for way in ways))


@pytest.mark.parametrize("how", ["alike", "apart", "independent"])
def test_no_coupling_of_shared_samples_makes_a_certificate_wrong_more_often_than_alpha(shared_endings, how):
    merged: dict[tuple, tuple] = {}  # a joint answer stands for all ways that give its counts
    for path, found in shared_endings:
        merged[tuple((q, repr(a)) for q, a in path)] = path, found
    worst = 0.0
    for q in worst_shares(ALPHA / 2)[::2]:
        for p in worst_shares(ALPHA / 4)[::3]:
            shares = (q, p, 1 - p)
            here, exact = truth(shares)
            chance_at = lru_cache(maxsize=None)(lambda ask, a, shares=shares: chance_of_votes(ask, a, shares, how))
            chances = [(prod(chance_at(*step) for step in path), c) for path, c in merged.values()]
            assert sum(chance for chance, _ in chances) == pytest.approx(1.0, abs=1e-9)
            wrong = sum(
                k for k, c in chances if c.predicted is not None and (c.predicted, c.radius > exact) != (here, False)
            )
            worst = max(worst, wrong)
    assert ALPHA / 10 < worst <= ALPHA


# Several routes, and experts that need no votes: what remains is the router's bounds


@pytest.mark.parametrize(
    ("routes", "agreeing", "n", "alpha"), [(2, 1, 12, 0.2), (3, 1, 12, 0.2), (3, 2, 12, 0.2), (4, 2, 8, 0.4)]
)
def test_no_router_is_wrong_about_its_rivals_more_often_than_alpha(routes, agreeing, n, alpha):
    """The first experts see class 1, the others class 0, all within a radius of 2: the router alone can err."""
    expert = LipschitzRule(constant=1.0, classes=2)
    rule = DualRule(SmoothedRule.gaussian(sigma=1.0, classes=routes), (expert,) * routes)
    labels = [int(j < agreeing) for j in range(routes)]

    def possible(question):
        if isinstance(question, ScoreRequest):
            route = int(question.part.removeprefix("expert-"))
            return [Scores(labels[route], 2 * 2**0.5, 0.0, 0.0, 0.0)]
        return splits(question.n, routes)

    found = list(every_ending(lambda: rule.certifying(n0=1, n=n, alpha=alpha), possible))
    picks, votes = (
        np.array([next(a for q, a in path if (q.part, q.role) == ("router", role)) for path, _ in found])
        for role in (Role.SELECTION, Role.ESTIMATION)
    )
    classes = np.array([-1 if c.predicted is None else c.predicted for _, c in found])
    radii = np.array([c.radius for _, c in found])
    worst = 0.0
    for shares in np.array(splits(16, routes)) / 16 * (1 - 1e-6) + 1e-6 / routes:
        chance = multinomial.pmf(picks, 1, shares) * multinomial.pmf(votes, n, shares)
        assert chance.sum() == pytest.approx(1.0, abs=1e-9)
        route = int(np.argmax(shares))
        reach = (ndtri(shares[route]) - ndtri(shares)) / 2
        exact = min([2.0, *(d for d, label in zip(reach, labels, strict=True) if label != labels[route])])
        wrong = (classes >= 0) & ((classes != labels[route]) | (radii > exact))
        worst = max(worst, chance[wrong].sum())
    assert 0 < worst <= alpha
