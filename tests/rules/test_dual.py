"""Dual: its rules against each other and against their definition; and alpha in every tree of schemes."""

import json
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import beta, norm

import sigmax as sx
from sigmax.bounds import Budget
from sigmax.radius import Gaussian, routed
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.certificate import Role
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import Scores, VoteRequest
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.routed import certifying as dual_certifying
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import feed, random_answers

patient = settings(deadline=None, max_examples=60)
N0 = 20


# Rules and answers at random

noises = st.sampled_from([0.12, 0.25, 0.5, 1.0, 2.0])
levels = st.sampled_from([1e-4, 1e-3, 0.05, 0.3])
answers = st.builds(
    random_answers, st.integers(0, 2**32), st.sampled_from([0.02, 0.1, 0.5, 3.0]), st.sampled_from([0.5, 0.9, 1.0])
)


@st.composite
def flat_systems(draw, rule="consensus"):
    """A router of two to four routes and an expert each: the rule `rule` over them."""
    routes, classes = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    experts = draw(st.lists(noises, min_size=routes, max_size=routes))
    router = SmoothedRule.gaussian(sigma=draw(noises), classes=routes)
    return DualRule(router, tuple(SmoothedRule.gaussian(sigma=s, classes=classes) for s in experts), rule)


smoothed = st.builds(
    SmoothedRule.gaussian, sigma=noises, classes=st.just(3), bound=st.sampled_from(["one-sided", "runner-up"])
)
leaves = smoothed | st.builds(LipschitzRule, constant=st.floats(0.1, 10), classes=st.just(3))


@st.composite
def above(draw, inner):
    """A router over two or three schemes."""
    experts = draw(st.lists(inner, min_size=2, max_size=3))
    bound = draw(st.sampled_from(["one-sided", "runner-up"]))
    router = SmoothedRule.gaussian(sigma=draw(noises), classes=len(experts), bound=bound)
    return DualRule(router, tuple(experts), draw(st.sampled_from(["min", "consensus"])))


@st.composite
def cascades(draw, inner):
    """One or two levels over a scheme; their base classifiers may defer."""
    count = draw(st.integers(1, 2))
    levels = tuple(SmoothedRule.gaussian(draw(noises), 3, defers=draw(st.booleans())) for _ in range(count))
    thresholds = tuple(draw(st.sampled_from([0.5, 0.6])) for _ in range(count))
    return CascadeRule(levels, draw(inner), thresholds)


def composed(inner):
    return above(inner) | cascades(inner)


trees = composed(st.recursive(leaves, composed, max_leaves=5))
without_cascades = above(st.recursive(leaves, above, max_leaves=5))


def one_bound_at_a_time(rule: DualRule, alpha: float, n: int):
    """The published procedure with every bound at the level at which the consensus rule computes it."""
    split, routes, router = rule.alpha_split(alpha), len(rule.experts), rule.router
    if routes > 2:  # both bounds of a router at the level that consensus gives each of its own
        split = split._replace(router=2 * Budget(split.router).share(routes))
        router = SmoothedRule.gaussian(sigma=router.sigma, classes=routes, bound="runner-up")
    return dual_certifying.minimum(dual_certifying.Task(router, rule.experts, split, N0, n, alpha, FIXED))


# Consensus and minimum


@patient
@given(flat_systems(), answers, levels, st.sampled_from([60, 300, 5000]))
def test_consensus_is_never_below_the_minimum_and_equal_where_the_router_is_certain(rule, votes, alpha, n):
    found, asked = feed(rule.certifying(n0=N0, n=n, alpha=alpha), votes)
    least, _ = feed(one_bound_at_a_time(rule, alpha, n), votes)
    assert found.radius >= least.radius
    if least.predicted is not None:
        assert found.predicted == least.predicted
        _, route, _, expert = least.stages
        if route.radius >= expert.radius:  # no rival in reach of the expert's radius
            assert found.radius == least.radius == expert.radius
            assert len(asked) == 4  # and no rival was asked


def exact_system(rule: DualRule, alpha: float, votes, n: int):
    """D, R and the class of every expert, asked or not, from textbook formulas and scipy alone."""
    routes, classes = len(rule.experts), rule.classes

    def ask(part, kinds, sigma, role, samples):
        return votes(VoteRequest(part, Role(role), kinds, Gaussian(sigma), samples))

    top = int(np.argmax(ask("router", routes, rule.router.sigma, "selection", N0)))
    k = ask("router", routes, rule.router.sigma, "estimation", n)
    level = alpha / 2 / routes if routes > 2 else alpha / 2
    low = beta.ppf(level, k[top], n - k[top] + 1) if k[top] else 0.0
    reach = []
    for j in range(routes):
        high = 1 - low if routes == 2 else (beta.isf(level, k[j] + 1, n - k[j]) if k[j] < n else 1.0)
        gap = ndtri(low) - min(ndtri(high), -ndtri(low)) if low > 0 else -inf
        reach.append(0.0 if j == top else max(0.0, rule.router.sigma / 2 * gap))
    radii, labels = [], []
    for j, expert in enumerate(rule.experts):
        best = int(np.argmax(ask(f"expert-{j}", classes, expert.sigma, "selection", N0)))
        hits = ask(f"expert-{j}", classes, expert.sigma, "estimation", n)[best]
        share = beta.ppf(alpha / 2 / routes, hits, n - hits + 1) if hits else 0.0
        radii.append(max(0.0, expert.sigma * ndtri(share)) if share > 0.5 else 0.0)
        labels.append(best if share > 0.5 else None)
    return reach, radii, labels


@patient
@given(flat_systems(), answers, levels, st.sampled_from([60, 300, 5000]))
def test_consensus_is_what_all_experts_together_would_prove(rule, votes, alpha, n):
    found, _ = feed(rule.certifying(n0=N0, n=n, alpha=alpha), votes)
    exact = routed(*exact_system(rule, alpha, votes, n))
    # Experts that were not asked could not have changed it; and it is rounded down, by next to nothing.
    assert found.radius <= exact * (1 + 1e-9) + 1e-9
    assert found.radius == pytest.approx(exact, rel=1e-7, abs=1e-7)


def experts_in(asked) -> list[int]:
    """The experts that were sampled, in their order."""
    parts = [question.part for question in asked if question.role is Role.ESTIMATION]
    return [int(part.removeprefix("expert-")) for part in parts if part != "router"]


@patient
@given(flat_systems(), answers, levels)
def test_experts_are_asked_nearest_first_and_none_without_need(rule, votes, alpha):
    found, asked = feed(rule.certifying(n0=N0, n=300, alpha=alpha), votes)
    reach, radii, labels = exact_system(rule, alpha, votes, 300)
    order = experts_in(asked)
    assert order[0] == int(np.argmax(found.stages[0].counts))
    assert [reach[j] for j in order] == sorted(reach[j] for j in order)
    for position, j in enumerate(order[1:], start=1):
        before = order[:position]
        assert len({labels[i] for i in before}) == 1
        assert reach[j] < min(radii[i] for i in before) + 1e-9


def test_the_nearest_rival_is_asked_first_wherever_it_stands():
    rule = DualRule(
        SmoothedRule.gaussian(sigma=1.0, classes=4),
        tuple(SmoothedRule.gaussian(sigma=1.0, classes=2) for _ in range(4)),
    )
    votes = {"router_selection": (0, 0, 20, 0), "router_estimation": (200, 50, 450, 300)}
    for j in range(4):
        votes |= {f"expert_{j}_selection": (20, 0), f"expert_{j}_estimation": (999, 1)}
    _, asked = feed(rule.certifying(n0=20, n=1000, alpha=1e-3), counts_of(**votes))
    assert experts_in(asked) == [2, 3, 0, 1]
    votes |= {"expert_3_selection": (0, 20), "expert_3_estimation": (1, 999)}
    found, asked = feed(rule.certifying(n0=20, n=1000, alpha=1e-3), counts_of(**votes))
    assert experts_in(asked) == [2, 3]
    assert found.radius == found.stages[1].radius > 0  # it ends where the one who disagrees may take over


@patient
@given(flat_systems("min"), answers, levels)
def test_the_minimum_asks_the_router_and_one_expert(rule, votes, alpha):
    found, asked = feed(rule.certifying(n0=N0, n=300, alpha=alpha), votes)
    # The expert comes first: where it abstains the router need not be sampled.
    assert len(asked) == (4 if found.predicted is not None or found.outcome is sx.Outcome.ROUTER_UNDECIDED else 3)
    if found.predicted is not None:
        _, route, _, expert = found.stages
        assert found.radius == min(route.radius, expert.radius) > 0
        assert (route.alpha, expert.alpha) == (alpha / 2, alpha / 2)


def counts_of(**stages):
    """Answers looked up by the stage's name, with '-' and '/' written as '_'."""
    return lambda question: stages[question.stage.replace("/", "_").replace("-", "_")]


STAGES = ("selection", "estimation")
UNDECIDED = {"router_selection": (11, 9), "router_estimation": (500, 500)}
SURE_OF_0 = {"expert_0_selection": (20, 0), "expert_0_estimation": (990, 10)}
AGREES = {"expert_1_selection": (20, 0), "expert_1_estimation": (950, 50)}
DISAGREES = {"expert_1_selection": (0, 20), "expert_1_estimation": (10, 990)}
TORN = {"expert_1_selection": (11, 9), "expert_1_estimation": (500, 500)}


def two_routes(rule="consensus", **changes):
    experts = tuple(SmoothedRule.gaussian(sigma=s, classes=2) for s in (0.5, 1.0))
    return DualRule(SmoothedRule.gaussian(**{"sigma": 1.0, "classes": 2, **changes}), experts, rule)


@pytest.mark.parametrize(
    ("votes", "outcome", "samples"),
    [
        ({**UNDECIDED, **SURE_OF_0, **AGREES}, sx.Outcome.CERTIFIED, 3 * 1020),
        ({**UNDECIDED, **SURE_OF_0, **DISAGREES}, sx.Outcome.EXPERTS_DISAGREE, 3 * 1020),
        ({**UNDECIDED, **SURE_OF_0, **TORN}, sx.Outcome.EXPERTS_DISAGREE, 3 * 1020),
        (
            {**UNDECIDED, "expert_0_selection": (11, 9), "expert_0_estimation": (500, 500)},
            sx.Outcome.NO_MAJORITY,
            1020 + 20,
        ),
        (
            {"router_selection": (20, 0), "router_estimation": (1000, 0), **SURE_OF_0},
            sx.Outcome.CERTIFIED,
            2 * 1020,
        ),
        (
            {"router_selection": (20, 0), "router_estimation": (600, 400), **SURE_OF_0, **DISAGREES},
            sx.Outcome.CERTIFIED,
            3 * 1020,
        ),
    ],
)
def test_every_outcome_of_consensus(votes, outcome, samples):
    found, _ = feed(two_routes().certifying(n0=20, n=1000, alpha=1e-3), counts_of(**votes))
    assert (found.outcome, found.samples) == (outcome, samples)
    assert (found.predicted is None) == (found.radius == 0.0) == (outcome is not sx.Outcome.CERTIFIED)
    assert len(outcome.advice) > 20


def test_an_undecided_router_abstains_by_the_published_rule():
    found, asked = feed(two_routes("min").certifying(n0=20, n=1000, alpha=1e-3), counts_of(**UNDECIDED, **SURE_OF_0))
    assert (found.outcome, found.predicted, found.radius) == (sx.Outcome.ROUTER_UNDECIDED, None, 0.0)
    assert (len(asked), found.limited_by, found.answered_by) == (4, "router/estimation", "expert-0")
    assert "consensus" in found.outcome.advice


def test_what_the_stages_of_a_routed_certificate_hold():
    votes = {"router_selection": (20, 0), "router_estimation": (800, 200), **SURE_OF_0, **AGREES}
    found, _ = feed(two_routes().certifying(n0=20, n=1000, alpha=1e-3), counts_of(**votes))
    names = [stage.name for stage in found.stages]
    assert names == [f"{part}/{stage}" for part in ("router", "expert-0", "expert-1") for stage in STAGES]
    by_name = dict(zip(names, found.stages, strict=True))
    route = by_name["router/estimation"]
    assert (route.counts, route.alpha, route.upper) == ((800, 200), 5e-4, None)
    assert route.radius == sx.radius.gaussian(1.0, sx.bounds.lower(800, 1000, 5e-4))
    for j, hits in ((0, 990), (1, 950)):
        expert = by_name[f"expert-{j}/estimation"]
        assert expert.alpha == 2.5e-4
        assert expert.radius == sx.radius.gaussian((0.5, 1.0)[j], sx.bounds.lower(hits, 1000, 2.5e-4))
    assert found.radius == min(by_name["expert-0/estimation"].radius, by_name["expert-1/estimation"].radius)
    assert found.radius > route.radius
    assert found.sigma == 0.5


def test_the_routers_stage_shows_its_strongest_rival():
    rule = DualRule(
        SmoothedRule.gaussian(sigma=1.0, classes=3),
        tuple(SmoothedRule.gaussian(sigma=0.5, classes=2) for _ in range(3)),
    )
    _, stage = dual_certifying.distances(rule.router, 0, (300, 310, 390), 5e-4)
    assert (stage.radius, stage.upper) == (0.0, sx.bounds.upper(390, 1000, Budget(5e-4).share(3)))
    reach, stage = dual_certifying.distances(rule.router, 0, (800, 150, 50), 5e-4)
    assert reach[0] == 0.0 < stage.radius == reach[1] < reach[2]
    assert stage.upper == sx.bounds.upper(150, 1000, Budget(5e-4).share(3))


# Alpha


def exactly(amounts) -> Fraction:
    return sum((Fraction(a) for a in amounts), Fraction(0))


@patient
@given(trees, answers, st.floats(1e-6, 0.9))
def test_no_tree_of_schemes_spends_more_than_alpha(rule, votes, alpha):
    found, _ = feed(rule.certifying(n0=N0, n=2000, alpha=alpha), votes)
    assert exactly(entry.alpha for entry in found.ledger) <= Fraction(alpha)
    # What the stages say they paid is what the ledger granted, or less where an expert was not asked.
    assert exactly(stage.alpha for stage in found.stages) <= exactly(entry.alpha for entry in found.ledger)
    assert (found.predicted is None) == (found.radius == 0.0)
    assert replay(rule.certifying(n0=N0, n=2000, alpha=alpha), found.stages) == found
    guess, _ = feed(rule.predicting(n=2000, alpha=alpha), votes)
    assert exactly(entry.alpha for entry in guess.ledger) <= Fraction(alpha)
    assert (guess.predicted is None) == (guess.p_value > alpha)
    assert replay(rule.predicting(n=2000, alpha=alpha), guess.stages) == guess


@patient
@given(trees, st.floats(1e-6, 0.9))
def test_the_parts_get_at_most_alpha_whoever_is_asked(rule, alpha):
    if isinstance(rule, CascadeRule):
        *levels, last = rule.alpha_split(alpha)
        assert exactly(levels) + Fraction(last if rule.last.is_random else 0) <= Fraction(alpha)
        assert all(0 < share <= alpha for share in (*levels, last))
        return
    for_router, for_expert = rule.alpha_split(alpha)
    paid = [share for share, expert in zip(for_expert, rule.experts, strict=True) if expert.is_random]
    asked = paid if rule.rule == "consensus" else [max(paid, default=0.0)]
    assert Fraction(for_router) + exactly(asked) <= Fraction(alpha)
    assert for_router > 0
    assert all(0 < share <= alpha for share in for_expert)


@patient
@given(without_cascades, answers)
def test_fixed_sampling_is_the_case_of_one_look(rule, votes):
    """Of all but cascades, which look twice before they take n samples."""
    asked = {"n0": N0, "n": 300, "alpha": 0.01}
    fixed, _ = feed(rule.certifying(**asked), votes)
    found, _ = feed(rule.certifying(**asked, sampling=Sampling("adaptive", first=300)), votes)
    assert (found.predicted, found.radius) == (fixed.predicted, fixed.radius)
    same = {stage.name: stage for stage in fixed.stages}  # but for parts that could not matter, and were not asked
    assert all(stage == same[stage.name] for stage in found.stages)


def test_the_ledger_also_names_what_was_not_needed():
    votes = {"router_selection": (20, 0), "router_estimation": (1000, 0), **SURE_OF_0}
    found, _ = feed(two_routes().certifying(n0=20, n=1000, alpha=1e-3), counts_of(**votes))
    assert found.ledger == (("router", 5e-4), ("expert-0/estimation", 2.5e-4), ("expert-1", 2.5e-4))


def test_deterministic_experts_leave_their_part_to_the_others():
    sure = LipschitzRule(constant=1.0, classes=2)
    noisy = SmoothedRule.gaussian(sigma=0.5, classes=2)
    router = SmoothedRule.gaussian(sigma=1.0, classes=3)
    assert DualRule(router, (sure, noisy, noisy)).alpha_split(1e-3) == (5e-4, (1e-3, 2.5e-4, 2.5e-4))
    assert DualRule(router, (sure, noisy, sure)).alpha_split(1e-3) == (5e-4, (1e-3, 5e-4, 1e-3))
    assert DualRule(router, (sure, sure, sure)).alpha_split(1e-3) == (1e-3, (1e-3, 1e-3, 1e-3))
    assert DualRule(router, (sure, sure, sure), "min").alpha_split(1e-3)[0] == 5e-4


@patient
@given(trees)
def test_a_tree_survives_its_description_also_as_json(rule):
    assert rebuild(rule.describe()) == rule
    assert rebuild(json.loads(json.dumps(rule.describe()))) == rule


def test_seen_scores_are_no_votes():
    planes = LipschitzRule(constant=1.0, classes=2)
    rule = DualRule(SmoothedRule.gaussian(sigma=1.0, classes=2), (planes, planes))

    def votes(question):
        return (1000, 0) if isinstance(question, VoteRequest) and question.n == 1000 else (20, 0)

    found, asked = feed(
        rule.certifying(n0=20, n=1000, alpha=1e-3),
        lambda q: votes(q) if isinstance(q, VoteRequest) else Scores(1, 2.0, 1.0, 4.0, 2.0**-14),
    )
    assert (found.predicted, found.samples) == (1, 1021)
    assert found.radius == pytest.approx((1 - 2.0**-14 * (2 * 4 + 3)) / 2**0.5, rel=1e-12)
    assert found.radius < norm.ppf(0.99)
    assert len(asked) == 3
