"""Uniform noise as a theorem sees it: scores against exact arithmetic, and the property that all radii rest on."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.radius import Uniform
from sigmax.radius.noise import described, level_in, noise_from, noise_in_words
from sigmax.rules.registry import rebuild
from sigmax.rules.smoothed import SmoothedRule

SHARES = st.floats(0, 1)
SCALES = st.floats(1e-3, 1e3)


@given(SCALES, SHARES, SHARES)
def test_margins_are_the_exact_ones_rounded_down(scale, high, low):
    found = Fraction(Uniform(scale).margin(high, low))
    exact = 2 * Fraction(scale) * max(Fraction(0), Fraction(high) - Fraction(low))
    assert found <= exact
    # The scale as a 32-bit float may be less by half of 2^-23.
    assert found >= exact * (1 - Fraction(1, 2**22)) - Fraction(1, 2**999)


@given(SCALES, SHARES, st.one_of(st.none(), SHARES))
@example(1.75, 2.225073858507e-311, 0.0)  # a product of the smallest doubles may be rounded up
def test_radii_are_the_exact_ones_rounded_down(scale, lower, upper):
    found = Fraction(radius.smoothed(Uniform(scale), lower, upper))
    rival = 1 - Fraction(lower) if upper is None else min(Fraction(upper), 1 - Fraction(lower))
    exact = Fraction(scale) * max(Fraction(0), Fraction(lower) - rival)
    assert found <= exact
    assert found >= exact * (1 - Fraction(1, 2**22)) - Fraction(1, 2**999)


@given(st.lists(st.tuples(SCALES, SHARES, SHARES), min_size=1, max_size=5), st.booleans())
def test_radii_of_many_at_once_are_the_exact_ones_rounded_down(asked, bounded):
    """As planning and reports compute them."""
    scales, lowers, uppers = (np.array(column) for column in zip(*asked, strict=True))
    found = radius.uniform(scales, lowers, uppers if bounded else None)
    for scale, lower, upper, r in zip(scales, lowers, uppers, found, strict=True):
        rival = min(Fraction(upper), 1 - Fraction(lower)) if bounded else 1 - Fraction(lower)
        exact = Fraction(scale) * max(Fraction(0), Fraction(lower) - rival)
        assert exact * (1 - Fraction(1, 2**22)) - Fraction(1, 2**999) <= Fraction(r) <= exact
        assert radius.smoothed(Uniform(scale), lower, upper if bounded else None) == pytest.approx(r, rel=1e-14)


def test_what_is_no_probability_is_refused():
    for wrong in (-0.1, 1.1, float("nan")):
        for ask in (lambda p: Uniform(1.0).lead(p), lambda p: Uniform(1.0).lead(0.9, p)):
            with pytest.raises(RequestError, match="expected a probability from 0 to 1"):
                ask(wrong)
        with pytest.raises(RequestError, match="expected a probability from 0 to 1"):
            Uniform(1.0).margin(wrong, 0.5)


@pytest.mark.parametrize(("n", "alpha"), [(100, 0.001), (1_000, 0.05)])
def test_the_largest_radius_is_that_of_unanimous_votes(n, alpha):
    rule = SmoothedRule(Uniform(2.0), 3)
    most = rule.estimate(0, (n, 0, 0), alpha).radius
    assert rule.largest_radius(n=n, alpha=alpha) == most == pytest.approx(2.0 * (2 * alpha ** (1 / n) - 1))
    assert radius.largest_uniform(2.0, n, alpha) == pytest.approx(most)


def test_numbers_of_the_theorem():
    """R = s (2 p_A - 1) alone, s (p_A - p_B) with a rival; 2 s (p - t) for one score beside a threshold."""
    noise = Uniform(0.5)
    assert radius.smoothed(noise, 0.9) == pytest.approx(0.4)
    assert radius.smoothed(noise, 0.4, 0.1) == pytest.approx(0.15)
    assert radius.answer_radius(noise, 0.9, 0.6) == pytest.approx(0.3)
    assert radius.exclusion_radius(noise, 0.2, 0.5) == pytest.approx(0.3)
    assert radius.smoothed(noise, 0.5) == radius.smoothed(noise, 0.3) == 0
    assert radius.smoothed(noise, 1.0) == pytest.approx(0.5)


def test_a_share_moves_no_faster_than_the_theorem_says():
    """By counting points of a lattice: cubes of side 2s, moved by d, share prod (1 - |d_i| / 2s) of their volume."""
    rng = np.random.default_rng(0)
    side, s = 8, 0.5  # cells a side of the cube
    for _ in range(200):
        moved = rng.integers(-side, side + 1, size=3)
        cells = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
        here, there = set(map(tuple, cells)), set(map(tuple, cells + moved))
        most = len(here - there) / side**3  # what the share of an event can change by, at most
        assert 2 * s * most <= np.abs(moved).sum() * 2 * s / side + 1e-12


def test_bounds_fail_no_more_often_than_alpha():
    """Every number of votes, with its chance: shares that move as fast as they may have the radius s(2p-1)."""
    n, rule = 60, SmoothedRule(Uniform(2.0), 2)
    pressed = 0.0
    for alpha in (0.05, 0.01):
        reached = np.array([rule.estimate(0, (k, n - k), alpha).radius for k in range(n + 1)])
        for p in [*np.linspace(0.5, 0.999, 40), *(1e-9 + rule.estimate(0, (k, n - k), alpha).lower for k in (45, 52))]:
            wrong = binom.pmf(np.arange(n + 1), n, p)[reached > 2.0 * (2 * p - 1)].sum()
            assert wrong <= alpha
            pressed = max(pressed, wrong / alpha)
    assert pressed > 0.9  # so the test can fail


def test_it_survives_a_file():
    rule = SmoothedRule(Uniform(np.float64(0.5)), 3)
    plain = rule.describe()
    assert (plain["noise"], plain["scale"], "sigma" in plain) == ("uniform", 0.5, False)
    assert rebuild(plain) == rule
    assert rule.norm == "l1"
    assert noise_from(described(rule.noise)) == rule.noise
    assert level_in(plain) == ("scale", 0.5)
    assert noise_in_words(plain) == "uniform 0.5"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scale": "0.5"}, "scale must be a positive number"),
        ({"scale": 0.0}, "scale must be a positive number"),
        ({"scale": float("nan")}, "scale must be a positive number"),
        ({"scale": True}, "scale must be a positive number"),
        ({"sigma": 0.5}, "the noise 'uniform' has a scale and no sigma"),
        ({"grid": 255}, "the noise 'uniform' has no grid"),
    ],
)
def test_a_file_is_not_trusted(changes, named):
    with pytest.raises(RequestError, match=named):
        rebuild({**SmoothedRule(Uniform(0.5), 3).describe(), **changes})
