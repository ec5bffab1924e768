"""Sampling: its looks and levels, what it saves and what it costs, and what it is not asked."""

import json
from dataclasses import replace
from fractions import Fraction
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sigmax as sx
from sigmax.rules.procedure import Scores, VoteRequest
from sigmax.rules.replay import replay
from sigmax.rules.sampling import FIXED, Sampling, asked, in_words, optimistic_counts, remade
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import feed, halfspace

ADAPTIVE = Sampling("adaptive")
patient = settings(deadline=None, max_examples=150)


def cast(seed: int, peaked: float = 0.3):
    """Votes of shares sampled at random for each part, one by one: those of a look are the next of the same row."""

    def answer(question):
        part = question.stage.rpartition("/")[0]
        rng = np.random.default_rng([seed, crc32(part.encode())])
        shares = rng.dirichlet([peaked] * question.classes)
        if rng.random() < 0.7:
            shares = np.sort(shares)[::-1]  # so that experts agree as often as not
        if not isinstance(question, VoteRequest):
            first, second = np.argsort(-shares)[:2]
            return Scores(int(first), float(shares[first]), float(shares[second]), 0.0, 0.0)
        row = np.random.default_rng([seed, crc32(question.stage.encode())]).random(question.stop)[question.start :]
        votes = np.searchsorted(np.cumsum(shares)[:-1], row)
        return tuple(map(int, np.bincount(votes, minlength=question.classes)))

    return answer


# Looks and levels

schedules = st.builds(
    Sampling,
    kind=st.just("adaptive"),
    targets=st.sampled_from([(), (0.25,), (0.0, 0.5, 1.0)]),
    first=st.integers(1, 500),
    growth=st.floats(1.01, 5),
    last=st.floats(0.01, 0.99),
)


@patient
@given(schedules, st.integers(1, 200_000), st.floats(1e-6, 0.9))
def test_the_levels_of_all_looks_sum_to_at_most_alpha_exactly(sampling, n, alpha):
    looks = sampling.schedule(n, alpha)
    stops, levels = zip(*looks, strict=True)
    assert sum(map(Fraction, levels), Fraction(0)) <= Fraction(alpha)
    assert list(stops) == sorted(set(stops))
    assert stops[-1] == n
    assert all(stop % sampling.first == 0 for stop in stops[:-1])
    assert list(levels[:-1]) == sorted(levels[:-1])
    assert levels[-1] == sampling.last_level(n, alpha) > 0
    if not sampling.settles_early:
        assert levels[-1] == alpha
        assert not any(levels[:-1])


def test_the_last_look_keeps_most_of_alpha():
    for n in (1_000, 10_000, 100_000):
        looks = replace(ADAPTIVE, targets=(0.5,)).schedule(n, 1e-3)
        assert looks[-1].level == pytest.approx(0.9e-3, rel=1e-9)
        assert all(look.level > 0 for look in looks)
        assert len(looks) < 40


def test_fixed_sampling_looks_once_with_all_of_alpha():
    assert FIXED.schedule(777, 0.01) == ((777, 0.01),)
    assert FIXED.capped(0.5) is FIXED
    assert not FIXED.enough(5.0, 0.0, 0.5)


def test_a_cap_makes_claims_before_the_last_look_worth_a_level():
    assert ADAPTIVE.capped(0.5).last_level(10_000, 1e-3) < ADAPTIVE.last_level(10_000, 1e-3) == 1e-3
    assert ADAPTIVE.capped(0.5).capped(0.7).cap == 0.5


@pytest.mark.parametrize(
    ("sampling", "proved", "possible", "enough"),
    [
        (ADAPTIVE, 0.0, 0.1, False),
        (ADAPTIVE, 0.0, 0.0, True),
        (ADAPTIVE, 0.2, 0.2, True),
        (replace(ADAPTIVE, cap=0.2), 0.2, 0.9, True),
        (replace(ADAPTIVE, cap=0.2), 0.1, 0.9, False),
        (replace(ADAPTIVE, targets=(0.25, 0.5)), 0.3, 0.4, True),
        (replace(ADAPTIVE, targets=(0.25, 0.5)), 0.3, 0.5, False),
        (replace(ADAPTIVE, targets=(0.25, 0.5)), 0.5, 2.0, True),
        (replace(ADAPTIVE, targets=(0.25, 0.5), cap=0.4), 0.3, 2.0, True),
        (replace(ADAPTIVE, targets=(0.0,)), 0.0, 0.1, False),
        (replace(ADAPTIVE, targets=(0.0,)), 1e-9, 0.1, True),
        (replace(ADAPTIVE, targets=(0.0,)), 0.0, 0.0, True),
        (replace(ADAPTIVE, tolerance=0.1), 0.30, 0.34, True),
        (replace(ADAPTIVE, tolerance=0.1), 0.30, 0.36, False),
        (replace(ADAPTIVE, tolerance=0.1), 0.0, 0.01, False),
    ],
)
def test_when_it_is_enough(sampling, proved, possible, enough):
    assert sampling.enough(proved, possible, sigma=0.5) is enough


@patient
@given(st.integers(2, 5), st.integers(1, 400), st.integers(0, 2**32), st.sampled_from([400, 10_000]))
def test_optimistic_counts_can_be_sampled_and_favours_the_top_class(classes, sampled, seed, n):
    counts = tuple(map(int, np.random.default_rng(seed).multinomial(sampled, [1 / classes] * classes)))
    best = optimistic_counts(counts, 0, n, 0.01)
    assert best[0] * sampled >= counts[0] * n
    assert all(0 <= hope * sampled <= count * n for hope, count in zip(best[1:], counts[1:], strict=True))
    assert max(best[1:]) + best[0] <= n
    assert optimistic_counts(counts, 0, n, 1e-6)[0] >= best[0]


# What it saves, and what it costs


@patient
@given(st.integers(0, 2**32), st.sampled_from(["one-sided", "runner-up"]), st.sampled_from([0.05, 1e-3]))
def test_asked_for_the_radius_it_proves_what_fixed_sampling_does_or_stops(seed, bound, alpha):
    rule, votes = SmoothedRule.gaussian(sigma=0.5, classes=3, bound=bound), cast(seed)
    fixed, _ = feed(rule.certifying(n0=20, n=2_000, alpha=alpha), votes)
    found, questions = feed(rule.certifying(n0=20, n=2_000, alpha=alpha, sampling=ADAPTIVE), votes)
    assert found.samples <= fixed.samples
    if found.samples == fixed.samples:
        assert [replace(s, looks=()) for s in found.stages] == list(fixed.stages)
        assert (found.predicted, found.radius, found.outcome) == (fixed.predicted, fixed.radius, fixed.outcome)
    else:
        assert (found.predicted, found.radius) == (None, 0.0)
    # The same votes as of fixed sampling, in the same order and none twice.
    looks = [(q.start, q.stop) for q in questions[1:]]
    assert looks == list(zip([0, *(stop for _, stop in looks)], [stop for _, stop in looks], strict=False))
    assert {(q.network, q.stage) for q in questions[1:]} == {("base", "estimation")}
    assert replay(rule.certifying(n0=20, n=2_000, alpha=alpha, sampling=ADAPTIVE), found.stages) == found


@pytest.fixture(scope="module")
def spread():
    """200 inputs at distances of -0.2 to 1.4 from a half-space, and the scheme that sees them."""
    x = torch.zeros(200, 4)
    x[:, 0] = torch.linspace(-0.2, 1.4, 200)
    return sx.Smoothed(halfspace([1.0, 0, 0, 0]), sigma=0.5, classes=2), x


def test_real_votes_are_those_of_fixed_sampling(spread):
    f, x = spread
    fixed = f.certify(x, n0=20, n=1_000, seed=3)
    found = f.certify(x, n0=20, n=1_000, seed=3, sampling="adaptive")
    kept = [(a, b) for a, b in zip(fixed, found, strict=True) if b.samples == a.samples]
    assert 150 < len(kept) < 200
    assert all(a.stages[1].counts == b.stages[1].counts and a.radius == b.radius for a, b in kept)
    # A futility stop is not free, but what is lost was next to nothing.
    lost = [a.radius for a, b in zip(fixed, found, strict=True) if a.radius and not b.radius]
    assert len(lost) <= 2
    assert max(lost, default=0.0) < 0.05


@pytest.mark.parametrize("targets", [(0.25,), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)])
def test_targets_hold_where_they_hold_by_all_samples_and_take_few_of_them(spread, targets):
    f, x = spread
    level = Sampling("adaptive", targets=targets).last_level(2_000, 1e-3)
    fixed = f.certify(x, n0=20, n=2_000, alpha=level, seed=3)
    found = f.certify(x, n0=20, n=2_000, alpha=1e-3, seed=3, sampling="adaptive", targets=targets)
    held = np.array([[c.radius >= max(t, 1e-300) for t in targets] for c in found])
    by_all = np.array([[c.radius >= max(t, 1e-300) for t in targets] for c in fixed])
    assert (by_all & ~held).mean() < 0.01
    assert (held & ~by_all).mean() < 0.01  # a look on the way may prove what the last does not
    assert sum(c.samples for c in found) < (0.25 if len(targets) == 1 else 0.85) * sum(c.samples for c in fixed)


def test_a_tolerance_costs_no_more_than_it_says(spread):
    f, x = spread
    level = Sampling("adaptive", tolerance=0.1).last_level(2_000, 1e-3)
    fixed = f.certify(x, n0=20, n=2_000, alpha=level, seed=3)
    found = f.certify(x, n0=20, n=2_000, alpha=1e-3, seed=3, sampling="adaptive", tolerance=0.1)
    short = np.array([a.radius - b.radius for a, b in zip(fixed, found, strict=True)])
    assert (short > 0.1 * 0.5).mean() < 0.02
    assert sum(c.samples for c in found) < sum(c.samples for c in fixed)


def test_looks_are_kept_with_the_level_of_the_one_that_proved_most(spread):
    f, x = spread
    question = Sampling("adaptive", targets=(0.25, 0.5))
    schedule = question.schedule(2_000, 1e-3)
    for c in f.certify(x[::20], n0=20, n=2_000, seed=3, sampling=question):
        stage = c.stages[1]
        sizes = [sum(look) for look in stage.looks]
        assert list(np.cumsum(sizes)) == [look.stop for look in schedule[: len(sizes)]]
        assert stage.alpha in [look.level for look in schedule[: len(sizes)]]
        assert tuple(map(sum, zip(*stage.looks, strict=True))) == stage.counts
        assert c.ledger == (("estimation", 1e-3),)


@pytest.mark.parametrize("batch", [7, 32, 1000])
def test_the_batch_size_changes_nothing(spread, batch):
    f, x = spread
    other = sx.Smoothed(halfspace([1.0, 0, 0, 0]), sigma=0.5, classes=2, batch=batch)
    question = {"n0": 20, "n": 500, "seed": 5, "sampling": "adaptive", "targets": (0.25, 0.5)}
    assert other.certify(x[::10], **question) == f.certify(x[::10], **question)


# Descriptions and requests


@patient
@given(schedules)
def test_a_question_survives_its_description_also_as_json(sampling):
    assert remade(sampling.describe()) == sampling
    assert remade(json.loads(json.dumps(sampling.describe()))) == sampling
    assert remade(FIXED.describe()) == FIXED


def test_questions_in_words():
    assert in_words(FIXED) == "fixed"
    assert in_words(asked("adaptive", (0.5, 0.25))) == "adaptive, asked which of 0.25, 0.5 hold"
    assert in_words(asked("adaptive", tolerance=0.05)) == "adaptive, to 0.05 of sigma"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"targets": 0.5}, "fixed sampling never does; ask for sampling='adaptive' with them"),
        ({"tolerance": 0.1}, "fixed sampling never does"),
        ({"sampling": "lazy"}, "sampling must be one of fixed, adaptive; got 'lazy'"),
        ({"sampling": None}, "sampling must be one of fixed, adaptive; got None"),
        ({"sampling": "adaptive", "targets": (0.25, -0.5)}, "radii of at least 0, such as .*; got -0.5"),
        ({"sampling": "adaptive", "targets": (float("nan"),)}, "got nan"),
        ({"sampling": "adaptive", "targets": float("inf")}, "got inf"),
        ({"sampling": "adaptive", "targets": "0.5"}, "a list of radii such as .*; got '0.5'"),
        ({"sampling": "adaptive", "targets": ["0.5"]}, "got '0.5'"),
        ({"sampling": "adaptive", "targets": [True]}, "got True"),
        ({"sampling": "adaptive", "targets": 1j}, "targets must be a list of radii"),
        ({"sampling": "adaptive", "targets": ()}, "at least one radius; leave them out to ask for the radius"),
        ({"sampling": "adaptive", "targets": (9.0, 8.0)}, "prove at most 0.7465.*smallest target is 8; use more"),
        ({"sampling": "adaptive", "tolerance": -0.1}, "from 0 to 1 .0.05 is usual.; got -0.1"),
        ({"sampling": "adaptive", "tolerance": 1.5}, "got 1.5"),
        ({"sampling": "adaptive", "tolerance": float("nan")}, "got nan"),
        ({"sampling": "adaptive", "tolerance": "much"}, "got 'much'"),
        ({"sampling": "adaptive", "tolerance": 0.1, "targets": 0.5}, "not both"),
        ({"sampling": ADAPTIVE, "targets": 0.5}, "within the Sampling"),
        ({"sampling": ADAPTIVE, "tolerance": 0.0}, "within the Sampling"),
        ({"sampling": "adaptive", "targets": 0.1, "n": 9}, "n=9 samples can never certify"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_before_any_vote(question, message):
    def network(batch):
        raise AssertionError("nothing may be sampled")

    f = sx.Smoothed(network, sigma=0.5, classes=2)
    with pytest.raises(sx.RequestError, match=message):
        f.certify(torch.zeros(2, 3), **{"n0": 20, "n": 100, **question})


@pytest.mark.parametrize(
    "change",
    [
        {"first": 0},
        {"first": 1.5},
        {"first": True},
        {"growth": 1.0},
        {"growth": float("nan")},
        {"last": 0.0},
        {"last": 1.1},
        {"futility": 0.0},
        {"futility": 0.5},
    ],
)
def test_a_schedule_that_is_none_is_refused(change):
    with pytest.raises(sx.RequestError, match=f"{next(iter(change))}=.*no such schedule of looks"):
        Sampling("adaptive", **change)


@pytest.mark.parametrize("description", [{"kind": "adaptive", "cap": 0.5}, {"kind": "fixed", "looks": 3}])
def test_an_unknown_way_of_sampling_is_refused(description):
    with pytest.raises(sx.RequestError, match="unknown way of sampling"):
        remade(description)
