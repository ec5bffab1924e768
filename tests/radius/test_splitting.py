"""Splitting noise by brute force: every small image, every classifier of what is seen of it, every perturbation.

# q steps; m offsets; an image is a tuple of whole numbers from 0 to q; `seen` is what the classifier gets, as fractions
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from sigmax import radius
from sigmax.engine.splits import split_copies
from sigmax.errors import RequestError
from sigmax.radius.splitting import Split
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.splitting import SplittingRule

CASES = [(3, 2, 2), (3, 4, 2), (3, 7, 2), (2, 3, 3), (5, 10, 2), (4, 1, 2), (2, 5, 3), (6, 3, 2)]  # q, m, numbers


def seen(image, noise: Split, j: int):
    """By the definition: the interval between two cuts that each number lies in, cut at 0 and 1, and its middle."""
    middles = []
    for k, v in zip(image, noise.shifts(len(image)).tolist(), strict=True):
        cut = Fraction((j + v) % noise.offsets) + Fraction(1, 2)
        while cut > k:
            cut -= noise.offsets
        while cut + noise.offsets < k:
            cut += noise.offsets
        low, high = max(cut, Fraction(0)), min(cut + noise.offsets, Fraction(noise.grid))
        middles.append((low + high) / 2 / noise.grid)
    return tuple(middles)


def votes_of(images, noise: Split, classes: int, seed: int):
    """The votes for every image of a classifier that answers at random for everything it can see."""
    rng, answers = np.random.default_rng(seed), {}
    counts = {}
    for image in images:
        found = [0] * classes
        for j in range(noise.offsets):
            view = seen(image, noise, j)
            if view not in answers:
                answers[view] = int(rng.choice(classes, p=[0.7, *[0.3 / (classes - 1)] * (classes - 1)]))
            found[answers[view]] += 1
        counts[image] = tuple(found)
    return counts


def apart(one, other) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("grid", "offsets", "numbers"), CASES)
def test_no_share_of_any_classifier_moves_faster_than_the_image(grid, offsets, numbers):
    images = list(product(range(grid + 1), repeat=numbers))
    for seed in range(3):
        counts = votes_of(images, Split(offsets, grid, seed), 3, seed)
        for x, y in product(images, repeat=2):
            assert all(abs(a - b) <= apart(x, y) for a, b in zip(counts[x], counts[y], strict=True))


def wrong_certificates(counts, grid, certified) -> int:
    wrong = 0
    for x, own in counts.items():
        first, *_ = sorted(range(len(own)), key=lambda c: (-own[c], c))
        reach = certified(own[first], sorted(own)[-2], grid)
        for y, theirs in counts.items():
            if reach and Fraction(apart(x, y), grid) <= Fraction(reach):
                leads = theirs[first] > max(k for c, k in enumerate(theirs) if c != first)
                wrong += not leads
    return wrong


@pytest.mark.parametrize(("grid", "offsets", "numbers"), CASES)
def test_no_quantised_image_within_the_radius_has_another_class(grid, offsets, numbers):
    images = list(product(range(grid + 1), repeat=numbers))
    some = 0
    for seed in range(6):
        counts = votes_of(images, Split(offsets, grid, seed), 3, seed)
        assert wrong_certificates(counts, grid, radius.splitting) == 0
        some += sum(radius.splitting(*sorted(own)[:-3:-1], grid) > 1 / grid for own in counts.values())
    assert some or offsets < 3  # certificates that reach another image


def adversarial(noise: Split, images):
    """Class 0 is seen wherever it can be at (0, 0): the counts there fall as fast as the theorem allows."""
    views = {seen(images[0], noise, j) for j in range(noise.offsets)}
    return {x: (n := sum(seen(x, noise, j) in views for j in range(noise.offsets)), noise.offsets - n) for x in images}


@pytest.mark.parametrize(
    "fault",
    [
        lambda first, second, grid: (first - second) / grid,  # the whole difference, not half of it
        lambda first, second, grid: (first - second) / (2 * grid) * (1 + 1e-9),  # up to where the two are tied
        lambda first, second, grid: first / (2 * grid),  # the rival is forgotten
    ],
)
def test_a_radius_that_is_too_large_is_caught(fault):
    """The test above can fail: one classifier is enough, whose votes move as fast as they may."""
    images = list(product(range(5), repeat=2))
    counts = adversarial(Split(6, 4, 1), images)
    assert wrong_certificates(counts, 4, radius.splitting) == 0
    assert wrong_certificates(counts, 4, fault) > 0


def test_offsets_that_are_left_out_are_caught():
    """A mutant: every other offset. Shares of those that are left move twice as fast."""
    images, noise = list(product(range(5), repeat=2)), Split(6, 4, 1)
    views = {seen(images[0], noise, j) for j in range(0, 6, 2)}
    counts = {x: (n := sum(seen(x, noise, j) in views for j in range(0, 6, 2)), 3 - n) for x in images}
    doubled = {x: (2 * a, 2 * b) for x, (a, b) in counts.items()}
    assert wrong_certificates(doubled, 4, radius.splitting) > 0


def test_shifts_that_depend_on_the_image_are_caught():
    images, noise = list(product(range(4), repeat=2)), Split(4, 3, 0)
    views = {seen(images[0], noise, j) for j in range(4)}

    def own(x):
        other = Split(4, 3, 7 + sum(x))
        n = sum(seen(x, other, j) in views for j in range(4))
        return n, 4 - n

    counts = {x: own(x) for x in images}
    assert any(abs(counts[x][0] - counts[y][0]) > apart(x, y) for x, y in product(images, repeat=2))


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**40), st.data())
def test_the_engine_shows_exactly_what_the_definition_says(offsets, grid, seed, data):
    image = data.draw(st.lists(st.integers(0, grid), min_size=1, max_size=6))
    noise = Split(offsets, grid, seed)
    first = data.draw(st.integers(0, offsets - 1))
    found = split_copies(torch.tensor(image), noise, first, offsets)
    for row, j in zip(found.tolist(), range(first, offsets), strict=True):
        assert row == [float(np.float32(float(middle))) for middle in seen(image, noise, j)]


@given(st.integers(0, 2**20), st.integers(0, 2**20), st.integers(1, 2**16 - 1))
def test_the_radius_is_just_below_the_exact_one(votes, rival, grid):
    found, exact = Fraction(radius.splitting(votes, rival, grid)), Fraction(votes - rival, 2 * grid)
    assert found == 0 if exact <= 0 else exact * (1 - Fraction(2, 10**15)) < found < exact


@given(st.integers(1, 2**20), st.integers(1, 2**16 - 1), st.floats(0, 1), st.floats(0, 1))
@example(7, 4, 2.225073858507e-311, 0.0)  # a product of the smallest doubles may be rounded up
def test_margins_are_the_exact_ones_rounded_down(offsets, grid, high, low):
    noise = Split(offsets, grid)
    exact = Fraction(offsets, grid) * max(Fraction(0), Fraction(high) - Fraction(low))
    assert exact * (1 - Fraction(1, 10**14)) - Fraction(1, 2**999) <= Fraction(noise.margin(high, low)) <= exact
    rival = min(Fraction(low), 1 - Fraction(high))
    lead = Fraction(offsets, grid) * max(Fraction(0), Fraction(high) - rival)
    assert Fraction(noise.lead(high, low)) <= lead


def test_scales_are_those_that_the_grid_has():
    assert Split.of_scale(0.5) == Split(255)
    assert Split.of_scale(0.5).scale == 0.5
    assert Split.of_scale(0.25).offsets == 128  # 127.5, to the even one
    assert Split.of_scale(1e-9).offsets == 1
    assert Split(255).margin(0.75, 0.25) == pytest.approx(0.5)
    assert Split(255).lead(0.75) == pytest.approx(0.5)
    assert radius.smoothed(Split(10, 4), 0.8, 0.1) == pytest.approx(radius.splitting(8, 1, 4))


def test_shifts_are_fixed_by_the_seed_and_all_offsets_occur():
    shifts = Split(255, 255, 3).shifts(20_000)
    assert np.array_equal(shifts[:100], Split(255, 255, 3).shifts(100))
    assert not np.array_equal(shifts, Split(255, 255, 4).shifts(20_000))
    assert set(shifts.tolist()) == set(range(255))
    assert Split(255).shifts(4).tolist() == [182, 35, 114, 196]  # a system's certificates rest on them


def test_a_rule_survives_a_file_and_a_file_is_not_trusted():
    rule = SplittingRule(Split(255, 255, 9), 10)
    plain = dict(rule.describe())
    assert rebuild(plain) == rule
    for changes, named in (
        ({"scale": 0.6}, "255 offsets on a grid of 255 are splitting noise of scale 0.5"),
        ({"offsets": 254}, "254 offsets on a grid of 255"),
        ({"offsets": 0}, "offsets must be a whole number"),
        ({"grid": 255.0}, "grid must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**63}, "seed must be a whole number"),
        ({"offsets": 2**20 + 1}, "offsets must be a whole number from 1 to 1,048,576"),
        ({"noise": "uniform"}, "the file is damaged"),
    ):
        with pytest.raises(RequestError, match=named):
            rebuild({**plain, **changes})


def test_the_rule_asks_once_and_spends_nothing():
    rule = SplittingRule(Split(8, 4, 0), 3)
    procedure = rule.certifying(n0=10, n=10, alpha=0.5)
    question = next(procedure)
    assert (question.n, question.noise, question.classes) == (8, rule.noise, 3)
    with pytest.raises(StopIteration) as end:
        procedure.send((6, 2, 0))
    found = end.value.value
    assert (found.predicted, found.ledger) == (0, ())
    assert found.radius == radius.splitting(6, 2, 4) == pytest.approx(0.5)
    limit = "the offsets (6 votes, strongest rival 2, of all 8 at noise 1)"
    assert found.explain() == f"Class 0 within radius 0.4999; limited by {limit}."
    assert replay(rule.certifying(n0=10, n=10, alpha=0.5), found.stages) == found
    assert rule.largest_radius(n=1, alpha=0.5) == radius.splitting(8, 0, 4) == pytest.approx(1.0)
    with pytest.raises(RequestError, match="n must be a whole number"):
        rule.check_predict(n=0, alpha=0.5)
    tied = replay(rule.certifying(n0=10, n=10, alpha=0.5), (_stage((4, 4, 0)),))
    assert (tied.predicted, tied.outcome.name) == (None, "TIED")


def _stage(counts):
    from sigmax.rules.certificate import Role, Stage

    return Stage("", Role.OFFSETS, 1.0, counts, 8)
