"""The radius under semi-elastic noise, against rigorous integration, the published form and its theorems."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import ncx2

from sigmax.errors import RequestError
from sigmax.radius import gaussian, semi_elastic, sharp_ratio_limits, xi
from tests.radius.oracle import DIGITS, greatest_chance

patient = settings(deadline=None, max_examples=40)
DIMS = (2, 784, 3072, 150_528, 196_608)


# Identity


def test_equal_noise_is_the_half_space():
    for lower in (2e-7, 0.3, 0.6, 0.99, 1 - 1e-9):
        for distance in (0.0, 0.25, 1.0, 3.0):
            exact = ndtr(distance / 0.5 - ndtri(lower))
            found = xi(distance, 0.5, 0.5, lower, 3072)
            assert found >= exact * (1 - 1e-14)
            assert found == pytest.approx(exact, rel=1e-8, abs=3e-12)


@pytest.mark.parametrize("dim", DIMS)
def test_the_constant_radius_is_the_limit_of_slow_change(dim):
    for lower in (0.6, 0.99, 1 - 1e-9):
        constant = gaussian(0.5, lower)
        assert semi_elastic(0.5, lower, 0.0, dim) == constant
        assert constant * (1 - 1e-9) <= semi_elastic(0.5, lower, 1e-9, dim) <= constant


def test_the_corners():
    assert semi_elastic(0.5, 0.5, 0.1, 10) == 0.0
    assert semi_elastic(0.5, 0.2, 0.0, 10) == 0.0
    assert semi_elastic(0.5, 1.0, 0.1, 10) == np.inf
    assert semi_elastic(0.5, 0.5 + 1e-15, 0.1, 10) >= 0.0
    assert semi_elastic(0.5, 0.9, 1e50, 3072) >= 0.0
    assert semi_elastic(0.5, 0.9, 0.0, 3072, jitter=1.0) == 0.0
    assert xi(1.0, 1.0, 0.9, 1.0, 10) == 0.0
    assert xi(1.0, 1.0, 0.9, 0.0, 10) == 1.0
    assert xi(1.0, 1.0, 1e-6, 0.9, 10) == 1.0
    assert xi(1e50, 1.0, 1.1, 0.9, 10) == 1.0
    assert xi(0.0, 1.0, 1.0, 0.9, 10) == pytest.approx(0.1, rel=1e-9)


def test_scalars_give_floats_and_arrays_give_arrays():
    assert type(semi_elastic(0.5, np.float64(0.9), 0.01, 784)) is float
    table = semi_elastic([[0.25], [0.5]], [0.6, 0.9, 0.4], 0.01, 784)
    assert table.shape == (2, 3)
    assert table[1, 1] == semi_elastic(0.5, 0.9, 0.01, 784)
    assert xi([0.1, 0.2], 0.5, 0.51, 0.9, 784).shape == (2,)


# Reference


def published(distance: float, ratio: float, lower: float, dim: int) -> float:
    """xi by the non-central chi-square, Theorem 2.3 of Sukenik et al. (2022)."""
    centre = distance**2 / (1 - ratio**2) ** 2
    if ratio < 1:
        return float(ncx2.cdf(ncx2.ppf(1 - lower, dim, centre) / ratio**2, dim, ratio**2 * centre))
    return float(ncx2.sf(ncx2.isf(1 - lower, dim, centre) / ratio**2, dim, ratio**2 * centre))


@pytest.mark.parametrize("dim", [1, 2, 3, 90, 784, 3072])
@pytest.mark.parametrize("ratio", [0.7, 0.9, 0.97, 0.99, 1.01, 1.03, 1.1, 1.4])
def test_the_published_form_is_met_where_it_is_reliable(dim, ratio):
    for distance in (0.01, 0.5, 2.0):
        for lower in (0.6, 0.9, 0.999):
            found = xi(distance, 1.0, ratio, lower, dim)
            assert found == pytest.approx(published(distance, ratio, lower, dim), abs=1e-9)


HARD = [
    (dim, ratio, lower)
    for dim in (2, 3, 784, 3072)
    for ratio in (1 - 1e-6, 1 + 1e-6, 0.999, 1.05)
    for lower in (0.6, 1 - 1e-9)
] + [
    (150_528, 0.999, 0.9),
    (196_608, 1 - 1e-6, 1 - 1e-9),
    (196_608, 1 + 1e-6, 0.9),
]


@pytest.mark.parametrize(("dim", "ratio", "lower"), HARD)
def test_xi_is_never_below_the_exact_value_and_next_to_it(dim, ratio, lower):
    found, exact = xi(0.7, 1.0, ratio, lower, dim), greatest_chance(0.7, 1.0, ratio, lower, dim)
    assert exact <= found
    assert found - exact < 2e-11


@pytest.mark.parametrize(
    ("dim", "sigma", "lower", "rate"),
    [
        (1, 0.5, 0.99, 0.3),
        (2, 0.5, 0.99, 0.2),
        (2, 0.5, 1 - 1e-9, 5.0),
        (7, 1.0, 0.51, 0.1),
        (784, 0.25, 0.9, 0.01),
        (784, 0.25, 1 - 1e-9, 1.0),
        (3072, 0.5, 0.999, 0.01),
        (3072, 0.12, 0.6, 0.001),
        (3072, 1.0, 0.99, 0.1),
        pytest.param(196_608, 0.5, 0.99, 0.005, marks=pytest.mark.slow),
    ],
)
def test_the_radius_is_never_above_the_exact_one_and_next_to_it(dim, sigma, lower, rate):
    radius = semi_elastic(sigma, lower, rate, dim)
    assert radius > 0

    def worst(distance: float) -> Iterator[arb]:
        with ctx.workprec(DIGITS):
            change = (arb(rate) * arb(distance)).exp()
            for level in (sigma * change, sigma / change):
                yield greatest_chance(distance, sigma, level, lower, dim)

    assert all(chance < 0.5 for chance in worst(radius))
    assert any(chance > 0.5 for chance in worst(radius * (1 + 1e-9)))


# Invariant: the published theorems


@patient
@given(st.floats(0.51, 1 - 1e-9), st.floats(0.02, 2), st.floats(1e-6, 2), st.sampled_from(DIMS[:3]))
def test_never_above_the_constant_radius(lower, sigma, rate, dim):
    assert semi_elastic(sigma, lower, rate, dim) <= gaussian(sigma, lower)


@patient
@given(st.floats(0.55, 1 - 1e-9), st.floats(1e-4, 1), st.floats(1.001, 3), st.sampled_from(DIMS[:3]))
def test_faster_change_more_jitter_and_weaker_bounds_never_help(lower, rate, more, dim):
    radius = semi_elastic(0.5, lower, rate, dim)
    slack = radius * 1e-9 + 1e-12
    assert semi_elastic(0.5, lower, rate * more, dim) <= radius + slack
    assert semi_elastic(0.5, lower, rate, dim, jitter=1e-3 * more) <= radius + slack
    assert semi_elastic(0.5, 0.5 + (lower - 0.5) / more, rate, dim) <= radius + slack


@patient
@given(st.floats(0.01, 2), st.floats(0.9, 1.1), st.floats(0.51, 1 - 1e-6), st.sampled_from([2, 90, 784]))
def test_theorem_3_1_noise_levels_in_between_are_covered(distance, ratio, lower, dim):
    if xi(distance, 1.0, ratio, lower, dim) < 0.5:
        for share in (0.0, 0.25, 0.5, 0.9):
            assert xi(distance, 1.0, 1 + share * (ratio - 1), lower, dim) < 0.5


@patient
@given(st.floats(0.01, 2), st.floats(1.01, 2), st.floats(0.8, 1.25), st.floats(0.51, 1 - 1e-6))
def test_lemma_f_4_the_worst_chance_rises_with_distance(distance, more, ratio, lower):
    assert xi(distance * more, 1.0, ratio, lower, 784) >= xi(distance, 1.0, ratio, lower, 784) - 1e-10


@patient
@given(st.floats(0.51, 1 - 1e-6), st.floats(0.05, 20), st.sampled_from(DIMS[:3]), st.floats(0.001, 0.2))
def test_only_the_scale_of_the_problem_matters(lower, scale, dim, rate):
    radius = semi_elastic(1.0, lower, rate, dim)
    assert semi_elastic(scale, lower, rate / scale, dim) == pytest.approx(scale * radius, rel=1e-9)


@pytest.mark.parametrize("dim", DIMS)
def test_at_distance_0_the_limits_of_the_ratio_are_met(dim):
    limits = sharp_ratio_limits(0.99, dim)
    width = limits.greatest - limits.least
    for limit, inward in ((limits.least, 1), (limits.greatest, -1)):
        assert xi(0.0, 1.0, limit + 1e-4 * inward * width, 0.99, dim) < 0.5
        assert xi(0.0, 1.0, limit - 1e-4 * inward * width, 0.99, dim) > 0.5


# Speed and requests


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
def test_a_radius_takes_less_than_five_milliseconds(dim, rate):
    taken = []
    for lower in np.linspace(0.9, 0.999, 8).tolist():  # the machine may be busy: the fastest of eight counts
        begun = time.perf_counter()
        semi_elastic(0.5, lower, rate, dim)
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 5e-3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0.0, 0.9, 0.1, 10), "sigma"),
        ((1.0, 1.1, 0.1, 10), "lower"),
        ((1.0, 0.9, -0.1, 10), "rate"),
        ((1.0, 0.9, float("nan"), 10), "rate"),
        ((1.0, 0.9, "0.1", 10), "rate"),
        ((1.0, 0.9, 0.1, 0), "dim"),
        ((1.0, 0.9, 0.1, 2.0), "dim"),
        ((1.0, 0.9, 0.1, True), "dim"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(arguments, complaint):
    with pytest.raises(RequestError, match=f"expected.*{complaint}.*got.*;"):
        semi_elastic(*arguments)


def test_a_negative_distance_or_jitter_is_refused():
    with pytest.raises(RequestError, match=r"expected distance.*got -1.0;"):
        xi(-1.0, 1.0, 1.0, 0.9, 10)
    with pytest.raises(RequestError, match=r"expected jitter.*got -1.0;"):
        semi_elastic(1.0, 0.9, 0.1, 10, jitter=-1.0)
