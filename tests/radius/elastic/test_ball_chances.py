"""The chances of a ball, by both methods, against rigorous integration: never above the exact ones, but close."""

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import erf, erfc, ndtr

from sigmax.radius.elastic.ball_mixture import ball_chances
from sigmax.radius.elastic.ball_sections import _strip, section_chances
from tests.radius.oracle import DIGITS, inside

DIMS = (1, 2, 3, 4, 9, 90, 784, 3072)


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with ctx.workprec(DIGITS):
        yield


def check(found: tuple[float, float], exact: arb, close: float) -> None:
    """Both chances below the exact ones, and within a share of them unless they are next to nothing."""
    for below, truth in zip(found, (exact, 1 - exact), strict=True):
        assert below <= truth + arb("2e-30")
        if truth > 1e-12:
            assert below >= truth * (1 - arb(close))


@pytest.mark.parametrize("dim", DIMS)
def test_sections_against_the_oracle(dim):
    rng = np.random.default_rng(dim)
    nearest = max(32.0, np.sqrt((dim - 1) / 2) / 4)
    for stretch in (1.0, 1.3, 10.0, 1e6):
        h = 1 / (nearest * stretch)
        t = float(rng.uniform(-6, 6) * np.sqrt(1 + h * h * dim / 2))
        centre = 1 / arb(h)
        square = centre**2 - 2 * (arb(t) - arb(h) * (dim - 1) / 2) * centre
        check(section_chances(dim - 1, h, t), inside(dim, centre, square), 1e-11)


@pytest.mark.parametrize("dim", DIMS)
def test_the_mixture_against_the_oracle(dim):
    rng = np.random.default_rng(dim)
    for centre in (0.0, 0.3, 5.0, 31.0):
        mu = centre**2 / 2
        m = float(max(dim + centre**2 + rng.uniform(-6, 6) * np.sqrt(2 * dim + 4 * centre**2), 0.01 * dim)) / 2
        check(ball_chances(dim, mu, m), inside(dim, (2 * arb(mu)).sqrt(), 2 * arb(m)), 1e-11)


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_a_tiny_ball_keeps_its_digits(dim):
    small, large = ball_chances(dim, 0.0, 1e-20)[0], ball_chances(dim, 0.0, 1e-18)[0]
    assert large == pytest.approx(small * 100 ** (dim / 2), rel=1e-9)
    assert ball_chances(dim, 2.0, 0.0) == pytest.approx((0.0, 1.0), abs=1e-12)


def test_both_methods_agree_where_one_hands_over_to_the_other():
    for dim in (2, 3072, 196_608):
        centre = max(32.0, np.sqrt((dim - 1) / 2) / 4)
        for t in (-4.0, 0.0, 4.0):
            h = 1 / centre
            square = centre**2 + dim - 1 - 2 * centre * t
            sections = section_chances(dim - 1, h, t)
            mixture = ball_chances(dim, centre**2 / 2, square / 2)
            assert sections == pytest.approx(mixture, rel=1e-9)


def test_the_half_space_is_the_limit():
    for n in (0, 1, 3071, 196_607):
        for t in (-6.0, 0.0, 1.0, 6.0):
            assert section_chances(n, 0.0, t) == pytest.approx((ndtr(-t), ndtr(t)), rel=2e-12)
            assert section_chances(n, 1e-12, t) == pytest.approx((ndtr(-t), ndtr(t)), rel=1e-6)


def test_one_dimension_far_beyond_the_ball_leaves_nothing_inside():
    for t in (20.0, 30.0, 1e6):
        within, beyond = section_chances(0, 1 / 32, t)
        assert within == 0
        assert beyond <= 1 - inside(1, arb(32), (arb(32) ** 2 - 64 * arb(t)).max(arb(0)))


def test_the_error_of_the_sum_is_small_whatever_is_asked():
    for n in (1, 2, 10, 1000, 10**6, 10**8):
        for stretch in (0.0, 0.1, 40.0):
            assert _strip(n, stretch).alias <= 1e-26


# What is charged for the special functions


def test_the_normal_distribution_function_is_as_good_as_is_charged():
    rng = np.random.default_rng(5)
    for z in map(float, np.concatenate([rng.uniform(-12, 9, 3000), rng.uniform(-1, 1, 1000)])):
        exact = (-arb(z) / arb(2).sqrt()).erfc() / 2
        assert abs(float(ndtr(z)) - exact) < arb("2e-13") * exact


def test_the_error_functions_are_as_good_as_is_charged():
    rng = np.random.default_rng(6)
    for x in map(float, np.concatenate([rng.uniform(0, 6, 2000), 10 ** rng.uniform(-12, 0, 1000)])):
        assert abs(float(erf(x)) - arb(x).erf()) < arb("2e-15") * arb(x).erf()
        assert abs(float(erfc(x)) - arb(x).erfc()) < arb("5e-14") * arb(x).erfc()
