"""PREDICT of routed systems: the class that holds whichever expert is in charge, wrong at most at alpha."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom, multinomial

import sigmax as sx
from sigmax.rules.routed.predicting import routes_left
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import every_ending, feed, splits
from tests.schemes.regions import dual, planes, smoothed

SUSPICIOUS = 1e-4  # a correct rule fails this exact test once in 10,000 runs; the seeds are fixed
RULES = ("min", "consensus")


# Which routes are left


@pytest.mark.parametrize(("routes", "n"), [(2, 30), (3, 14), (4, 8)])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_the_true_route_is_kept_but_for_alpha(routes, n, alpha):
    """Every way the votes can fall, with its probability, for shares with and without a tie."""
    counts = np.array(splits(n, routes))
    kept = np.array([[j in routes_left(tuple(row), alpha)[0] for j in range(routes)] for row in counts.tolist()])
    worst = 0.0
    for shares in np.array([row for row in splits(12, routes) if row[0] == max(row)]) / 12:
        chance = multinomial.pmf(counts, n, shares)
        for true in np.flatnonzero(shares == shares.max()):
            worst = max(worst, chance[~kept[:, true]].sum())
    assert worst <= alpha
    if routes == 2:
        tails = binom.sf(np.arange(n), n, 0.5)
        assert worst == pytest.approx(tails[tails <= alpha].max())  # and no more is kept than needed


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), min_size=2, max_size=5).filter(any), st.floats(1e-6, 0.49))
def test_the_leading_route_stays_and_a_route_with_more_votes_is_never_dropped_first(counts, alpha):
    left, excluded_at = routes_left(tuple(counts), alpha)
    assert left[0] == int(np.argmax(counts))
    assert [counts[j] for j in left] == sorted((counts[j] for j in left), reverse=True)
    gone = set(range(len(counts))) - set(left)
    assert max((counts[j] for j in gone), default=-1) < min(counts[j] for j in left)
    assert excluded_at <= alpha
    assert (excluded_at == 0.0) == (not gone)


def test_two_routes_are_told_apart_by_a_one_sided_test_at_the_level_given():
    for k in range(50, 101):
        p_value = stats.binomtest(k, 100, 0.5, alternative="greater").pvalue
        assert (len(routes_left((k, 100 - k), 0.01)[0]) == 1) == (p_value <= 0.01)


# How often the class is wrong


@pytest.mark.parametrize("rule", RULES)
def test_no_shares_make_a_prediction_wrong_more_often_than_alpha(rule):
    """Two routes, two classes: every way the votes can fall."""
    n, alpha = 9, 0.5
    parts = {"router": 0, "expert-0": 1, "expert-1": 2}
    experts = tuple(SmoothedRule.gaussian(sigma=s, classes=2) for s in (0.25, 0.5))
    system = DualRule(SmoothedRule.gaussian(sigma=0.5, classes=2), experts, rule)
    votes, classes = [], []
    for path, found in every_ending(lambda: system.predicting(n=n, alpha=alpha), lambda q: splits(q.n, 2)):
        row = [-1, -1, -1]
        for question, answer in path:
            row[parts[question.stage.partition("/")[0]]] = answer[1]
        votes.append(row)
        classes.append(-1 if found.predicted is None else found.predicted)
    votes, classes = np.array(votes), np.array(classes)
    worst = 0.0
    grid = (0.5 + 1e-9, 0.52, 0.6, 0.75, 0.95, 0.5 - 1e-9, 0.48, 0.4, 0.25, 0.05)
    for shares in np.stack(np.meshgrid(grid, grid, grid), -1).reshape(-1, 3):
        chance = np.where(votes < 0, 1.0, binom.pmf(votes, n, shares)).prod(1)
        assert chance.sum() == pytest.approx(1.0, abs=1e-9)
        true = int(shares[1 + int(shares[0] > 0.5)] > 0.5)
        worst = max(worst, chance[(classes >= 0) & (classes != true)].sum())
    assert alpha / 6 < worst <= alpha


X, Y, SLANTED = (1.0, 0.0), (0.0, 1.0), (0.6, -0.8)
SYSTEMS = {
    "undecided, experts opposed": lambda rule: dual(
        smoothed(X, [-0.001], 1.0), [smoothed(Y, [4.0], 1.0), smoothed(Y, [-4.0], 1.0)], rule
    ),
    "undecided, experts agree": lambda rule: dual(
        smoothed(X, [-0.001], 1.0), [smoothed(Y, [-0.6], 0.5), smoothed(SLANTED, [-0.5], 1.0)], rule
    ),
    "expert undecided": lambda rule: dual(
        smoothed(X, [-3.0], 1.0), [smoothed(Y, [4.0], 1.0), smoothed(Y, [-0.001], 0.5)], rule
    ),
    "both undecided": lambda rule: dual(
        smoothed(X, [-0.05], 1.0), [smoothed(Y, [0.05], 0.5), smoothed(SLANTED, [-0.05], 0.5)], rule
    ),
    "three routes": lambda rule: dual(
        smoothed(X, [-0.5, 0.0], 1.0),
        [smoothed(Y, [4.0], 1.0), smoothed(Y, [-0.4], 0.5), smoothed(Y, [-4.0], 1.0)],
        rule,
    ),
    "deterministic": lambda rule: dual(smoothed(X, [-0.001], 1.0), [planes(Y, 0.3), planes(Y, -0.3)], rule),
    "system within": lambda rule: dual(
        smoothed(X, [-0.001], 1.0),
        [
            smoothed(Y, [4.0], 1.0),
            dual(smoothed(SLANTED, [-0.1], 0.5), [smoothed(Y, [0.5], 0.5), smoothed(Y, [-0.5], 0.5)], rule),
        ],
        rule,
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("rule", RULES)
def test_predictions_are_wrong_no_more_often_than_alpha(rule, name):
    system, alpha, repeats = SYSTEMS[name](rule), 0.05, 600
    true, _ = system.at(np.zeros(2))
    found = system.scheme.predict(torch.zeros(repeats, 2), n=100, alpha=alpha, seed=3)
    wrong = sum(p.predicted is not None and p.predicted != true for p in found)
    assert stats.binomtest(wrong, repeats, alpha, alternative="greater").pvalue > SUSPICIOUS
    assert all((p.predicted is not None) == (p.outcome is sx.Outcome.PREDICTED) for p in found)
    assert all((p.predicted is not None) == (p.p_value <= alpha) for p in found)
    if (name, rule) == ("undecided, experts agree", "consensus"):
        assert sum(p.predicted == true for p in found) > 0.9 * repeats


# What a prediction says


def answers(**stages):
    return lambda question: stages[question.stage.replace("/prediction", "").replace("-", "_")]


def predicted(rule="consensus", **votes):
    experts = tuple(SmoothedRule.gaussian(sigma=s, classes=2) for s in (0.25, 0.5))
    system = DualRule(SmoothedRule.gaussian(sigma=0.5, classes=2), experts, rule)
    return feed(system.predicting(n=100, alpha=0.02), answers(**votes))


@pytest.mark.parametrize(
    ("votes", "rule", "outcome", "parts"),
    [
        ({"router": (90, 10), "expert_0": (95, 5)}, "min", sx.Outcome.PREDICTED, 2),
        ({"router": (90, 10), "expert_0": (95, 5)}, "consensus", sx.Outcome.PREDICTED, 2),
        ({"router": (90, 10), "expert_0": (55, 45)}, "consensus", sx.Outcome.TOO_CLOSE, 2),
        ({"router": (55, 45)}, "min", sx.Outcome.ROUTER_UNDECIDED, 1),
        ({"router": (55, 45), "expert_0": (95, 5), "expert_1": (90, 10)}, "consensus", sx.Outcome.PREDICTED, 3),
        (
            {"router": (55, 45), "expert_0": (95, 5), "expert_1": (10, 90)},
            "consensus",
            sx.Outcome.EXPERTS_DISAGREE,
            3,
        ),
        (
            {"router": (55, 45), "expert_0": (95, 5), "expert_1": (50, 50)},
            "consensus",
            sx.Outcome.EXPERTS_DISAGREE,
            3,
        ),
        ({"router": (45, 55), "expert_1": (50, 50)}, "consensus", sx.Outcome.TOO_CLOSE, 2),
    ],
)
def test_every_outcome(votes, rule, outcome, parts):
    found, asked = predicted(rule, **votes)
    assert (found.outcome, len(asked), len(found.stages)) == (outcome, parts, parts)
    assert found.predicted == (0 if outcome is sx.Outcome.PREDICTED else None)
    assert (found.p_value <= 0.02) == (outcome is sx.Outcome.PREDICTED)
    assert found.alpha == 0.02
    assert found.ledger[-1] == ("the expert in charge", 0.01)


def test_the_p_value_is_the_alpha_at_which_the_class_would_just_be_returned():
    votes = {"router": (70, 30), "expert_0": (66, 34)}
    experts = tuple(SmoothedRule.gaussian(sigma=s, classes=2) for s in (0.25, 0.5))
    for rule in RULES:
        system = DualRule(SmoothedRule.gaussian(sigma=0.5, classes=2), experts, rule)
        level = feed(system.predicting(n=100, alpha=0.3), answers(**votes))[0].p_value
        assert feed(system.predicting(n=100, alpha=level), answers(**votes))[0].predicted == 0
        below = feed(system.predicting(n=100, alpha=level * 0.999), answers(**votes, expert_1=(50, 50)))[0]
        assert below.predicted is None
