"""Adaptive certificates of routed systems: every ending by its chance, and every stage against the textbook.

# q, p_0, p_1 shares of route 1 and of class 1 at each expert; D_j reach of route j, R_j radius of expert j
"""

from fractions import Fraction
from functools import lru_cache
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import beta, multinomial

import sigmax as sx
from sigmax import bounds, radius
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import ScoreRequest, Scores
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import Sampling
from sigmax.rules.smoothed import SmoothedRule
from tests.rules.test_dual import flat_systems, levels, trees
from tests.rules.test_dual_exact import NOISE, PARTS, truth
from tests.rules.test_sampling import cast
from tests.schemes.helpers import every_ending, feed, splits

RULES = ("min", "consensus")
QUESTIONS = {
    "the radius": Sampling("adaptive"),
    "any radius": Sampling("adaptive", targets=(0.0,)),
    "targets": Sampling("adaptive", targets=(0.1, 0.3, 0.6)),
    "tolerance": Sampling("adaptive", tolerance=0.2),
}
patient = settings(deadline=None, max_examples=50)
votes_of = st.builds(cast, st.integers(0, 2**32), st.sampled_from([0.02, 0.1, 0.5]))
questions = st.sampled_from(list(QUESTIONS.values()))


# Every ending, at so few samples that all can be listed

N, ALPHA = 6, 0.6  # looks at 3 and 6 samples; an alpha at which three votes prove something
FEW = {"first": 3, "last": 0.4}


def listed(rule, question):
    """Votes for 1 and votes cast by part, in how many orders they fall so, class and radius, of every ending."""
    rows = []
    for path, found in every_ending(
        lambda: rule.certifying(n0=1, n=N, alpha=ALPHA, sampling=question), lambda ask: splits(ask.n, 2)
    ):
        ones, cast_, ways = [0, 0, 0], [0, 0, 0], 1
        for ask, answer in path:
            part = PARTS[ask.stage.partition("/")[0]]
            ones[part] += answer[1]
            cast_[part] += ask.n
            ways *= comb(ask.n, answer[1])
        rows.append((ones, cast_, ways, -1 if found.predicted is None else found.predicted, found.radius))
    return tuple(map(np.array, zip(*rows, strict=True)))


def pressing_shares(level: float) -> list[float]:
    """Just below what a look can prove at this level or at a part of it; and mirrored."""
    below = {
        bounds.lower(k, n, part * level) * (1 - 1e-9) for n in (3, N) for part in (1, 0.6, 0.4) for k in (n - 1, n)
    }
    near = [*sorted(share for share in below if share > 0.5)[::2], 0.5 + 1e-9, 0.97]
    return [*near, *(1 - share for share in near)]


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("kind", RULES)
def test_no_shares_make_a_certificate_wrong_more_often_than_alpha(kind, name):
    router, *experts = (SmoothedRule.gaussian(sigma=s, classes=2) for s in NOISE)
    rule = DualRule(router, tuple(experts), kind)
    ones, cast_, ways, classes, radii = listed(rule, Sampling(**{**vars(QUESTIONS[name]), **FEW}))
    worst = 0.0
    for q in pressing_shares(ALPHA / 2):
        for p in pressing_shares(ALPHA / 4):
            for other in (p, 1 - p, 0.9, 0.1):
                shares = np.array([q, p, other])
                chances = ways * np.prod(shares**ones * (1 - shares) ** (cast_ - ones), axis=1)
                assert chances.sum() == pytest.approx(1.0, abs=1e-12)
                here, exact = truth(shares)
                wrong = (classes >= 0) & ((classes != here) | (radii > exact))
                worst = max(worst, chances[wrong].sum())
    assert ALPHA / 10 < worst <= ALPHA


@pytest.mark.parametrize("name", ["the radius", "any radius", "targets"])
@pytest.mark.parametrize(("routes", "agreeing", "n"), [(2, 1, 12), (3, 2, 9)])
def test_no_router_is_wrong_about_its_rivals_more_often_than_alpha(routes, agreeing, n, name):
    """The first experts see class 1, the others class 0, all within a radius of 1: the router alone can err."""
    expert, alpha = LipschitzRule(constant=1.0, classes=2), 0.5
    rule = DualRule(SmoothedRule.gaussian(sigma=1.0, classes=routes), (expert,) * routes)
    question = Sampling(**{**vars(QUESTIONS[name]), "first": 3, "last": 0.5})
    assert len(question.capped(1.0).schedule(n, alpha)) > 1
    labels = [int(j < agreeing) for j in range(routes)]

    def possible(asked):
        if isinstance(asked, ScoreRequest):
            route = int(asked.stage.removeprefix("expert-").partition("/")[0])
            return [Scores(labels[route], 2**0.5, 0.0, 0.0, 0.0)]
        return splits(asked.n, routes)

    found = every_ending(lambda: rule.certifying(n0=1, n=n, alpha=alpha, sampling=question), possible)
    shares = np.array(splits(12, routes)) / 12 * (1 - 1e-6) + 1e-6 / routes
    tops = np.argmax(shares, axis=1)
    reach = (ndtri(np.max(shares, axis=1))[:, None] - ndtri(shares)) / 2
    here = np.array(labels)[tops]
    exact = np.minimum(1.0, np.where(np.array(labels) != here[:, None], reach, inf).min(1))
    total, wrong = np.zeros(len(shares)), np.zeros(len(shares))
    chance_of = lru_cache(maxsize=None)(lambda votes: multinomial.pmf(votes, sum(votes), shares))
    for path, certificate in found:
        chance = np.prod([chance_of(votes) for asked, votes in path if not isinstance(asked, ScoreRequest)], axis=0)
        total += chance
        if certificate.predicted is not None:
            wrong += np.where((certificate.predicted != here) | (certificate.radius > exact), chance, 0.0)
    assert total == pytest.approx(1.0, abs=1e-9)
    assert 0 < wrong.max() <= alpha


# Every stage against the textbook


def lower(k: int, n: int, level: float) -> float:
    return beta.ppf(level, k, n - k + 1) if k and level else 0.0


def looked(stage, question, alpha, n):
    """The counts after each look of a stage, with its level."""
    looks = stage.looks or (stage.counts,)
    counts = np.cumsum(looks, axis=0)
    return [(k, look.level) for k, look in zip(counts, question.schedule(n, alpha), strict=False)]


@patient
@given(flat_systems(), votes_of, levels, questions)
def test_consensus_is_what_the_looks_it_took_prove(rule, votes, alpha, question):
    """Bounds from scipy alone, the best of each stage's looks; the levels are those the schedule gives."""
    n = 1_000
    found, _ = feed(rule.certifying(n0=20, n=n, alpha=alpha, sampling=question), votes)
    stages = {stage.name: stage for stage in found.stages}
    routes = len(rule.experts)
    top = int(np.argmax(stages["router/selection"].counts))
    reach, radii, labels = [0.0] * routes, [0.0] * routes, [None] * routes
    for j, expert in enumerate(rule.experts):
        if f"expert-{j}/estimation" not in stages:
            continue
        best = int(np.argmax(stages[f"expert-{j}/selection"].counts))
        asked = question if j == top else question.capped(1.0)
        for k, level in looked(stages[f"expert-{j}/estimation"], asked, alpha / 2 / routes, n):
            radii[j] = max(radii[j], expert.sigma * ndtri(lower(k[best], k.sum(), level)))
        labels[j] = best if radii[j] > 0 else None
    if "router/estimation" in stages:
        for k, level in looked(stages["router/estimation"], question.capped(1.0), alpha / 2, n):
            each = level / routes if routes > 2 else level
            low, total = lower(k[top], k.sum(), each), k.sum()
            for j in set(range(routes)) - {top}:
                high = 1 - low if routes == 2 else beta.isf(each, k[j] + 1, total - k[j]) if k[j] < total else 1.0
                gap = ndtri(low) - min(ndtri(high), -ndtri(low)) if low > 0 else 0.0
                reach[j] = max(reach[j], rule.router.sigma / 2 * gap)
    assert found.radius == pytest.approx(radius.routed(reach, radii, labels), rel=1e-6, abs=1e-6)
    if found.predicted is not None:
        assert found.predicted == labels[top]


@patient
@given(trees, votes_of, st.floats(1e-6, 0.9), questions)
def test_no_tree_of_schemes_spends_more_than_alpha_or_samples_more_than_n(rule, votes, alpha, question):
    n = 2_000
    found, asked = feed(rule.certifying(n0=20, n=n, alpha=alpha, sampling=question), votes)
    granted = sum((Fraction(entry.alpha) for entry in found.ledger), Fraction(0))
    assert granted <= Fraction(alpha)
    assert sum((Fraction(stage.alpha) for stage in found.stages), Fraction(0)) <= granted
    assert (found.predicted is None) == (found.radius == 0.0)
    assert all(stage.n <= n for stage in found.stages)
    assert replay(rule.certifying(n0=20, n=n, alpha=alpha, sampling=question), found.stages) == found
    sampled: dict[str, int] = {}
    for ask in asked:
        if not isinstance(ask, ScoreRequest):
            assert ask.start == sampled.get(ask.stage, 0)  # every vote follows the one before, and none is cast twice
            sampled[ask.stage] = ask.stop
    assert sampled == {stage.name: stage.n for stage in found.stages if stage.sigma}


@patient
@given(flat_systems("min"), votes_of, levels)
def test_the_minimum_differs_from_fixed_sampling_only_by_what_the_router_may_lose(rule, votes, alpha):
    n = 2_000
    fixed, _ = feed(rule.certifying(n0=20, n=n, alpha=alpha), votes)
    found, _ = feed(rule.certifying(n0=20, n=n, alpha=alpha, sampling=QUESTIONS["the radius"]), votes)
    assert found.samples <= fixed.samples or fixed.outcome is sx.Outcome.ROUTER_UNDECIDED  # it asks the expert first
    if found.predicted is None:
        return
    route, expert = (s for s in found.stages if s.name.endswith("estimation"))
    assert fixed.predicted in (found.predicted, None)
    assert expert.counts == {s.name: s.counts for s in fixed.stages}.get(expert.name, expert.counts)
    assert found.radius == min(route.radius, expert.radius)
    if route.radius >= expert.radius and fixed.predicted is not None:
        assert found.radius >= fixed.radius


# What is not asked


def given_shares(**parts):
    """Votes by part: the share of class or route 0."""

    def answer(ask):
        share = parts[ask.stage.partition("/")[0].replace("-", "_")]
        zeros = round(share * ask.stop) - round(share * ask.start)
        return (zeros, ask.n - zeros)

    return answer


def two_routes(kind):
    experts = tuple(SmoothedRule.gaussian(sigma=s, classes=2) for s in (0.5, 1.0))
    return DualRule(SmoothedRule.gaussian(sigma=1.0, classes=2), experts, kind)


@pytest.mark.parametrize("kind", RULES)
def test_a_certain_router_samples_next_to_nothing(kind):
    votes = given_shares(router=1.0, expert_0=0.8)
    found, _ = feed(two_routes(kind).certifying(n0=100, n=10_000, alpha=1e-3, sampling=Sampling("adaptive")), votes)
    stages = {stage.name: stage for stage in found.stages}
    fixed, _ = feed(two_routes(kind).certifying(n0=100, n=10_000, alpha=1e-3), votes)
    assert stages["expert-0/estimation"].n == 10_000
    assert stages["router/estimation"].n <= 160
    assert found.radius == fixed.radius == stages["expert-0/estimation"].radius


@pytest.mark.parametrize("kind", RULES)
def test_where_the_expert_certifies_nothing_the_router_is_not_asked(kind):
    found, _ = feed(
        two_routes(kind).certifying(n0=100, n=10_000, alpha=1e-3, sampling=Sampling("adaptive")),
        given_shares(router=1.0, expert_0=0.5),
    )
    assert [s.name for s in found.stages] == ["router/selection", "expert-0/selection", "expert-0/estimation"]
    assert found.outcome is sx.Outcome.NO_MAJORITY
    assert found.samples < 8_000  # of 20,200: at even odds hope dies slowly
    assert found.ledger[0] == ("router", 5e-4)  # granted all the same


def test_a_hopeless_router_is_left_for_the_other_expert():
    votes = given_shares(router=0.52, expert_0=0.95, expert_1=0.99)
    found, asked = feed(
        two_routes("consensus").certifying(n0=100, n=10_000, alpha=1e-3, sampling=Sampling("adaptive")), votes
    )
    samples = {stage.name: stage.n for stage in found.stages}
    assert found.radius == {s.name: s for s in found.stages}["expert-0/estimation"].radius > 0
    assert samples["router/estimation"] < 1_000
    assert samples["expert-1/estimation"] < 1_000  # it only has to reach as far as expert 0
    order = [question.stage for question in asked]
    assert order.index("expert-1/estimation") > order.index("router/estimation")


@pytest.mark.parametrize(("target", "outcome"), [(0.6, sx.Outcome.FUTILITY_STOP), (0.01, sx.Outcome.EXPERTS_DISAGREE)])
def test_a_router_that_stopped_early_is_told_from_experts_that_disagree(target, outcome):
    """0.545 of the votes never show a distance of 0.6, and all but show one of 0.01 when all are cast."""
    ones = {"router": 0.455, "expert-0": 0.01, "expert-1": 0.99}

    def answers(ask):
        k = round(ask.n * ones[ask.part])
        return ask.n - k, k

    network = SmoothedRule.gaussian(1.0, 2)
    question = Sampling("adaptive", targets=(target,))
    procedure = DualRule(network, (network, network)).certifying(n0=20, n=1_000, alpha=1e-3, sampling=question)
    found, asked = feed(procedure, answers)
    assert (found.outcome, found.predicted) == (outcome, None)
    cast_ = sum(ask.n for ask in asked if ask.stage == "router/estimation")
    assert (cast_ == 1_000) == (outcome is sx.Outcome.EXPERTS_DISAGREE)
