"""The Gaussian radius against a rigorous oracle (Arb): never above the exact one, and next to it."""

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sigmax.bounds import lower as clopper_pearson
from sigmax.errors import RequestError
from sigmax.radius import gaussian, largest

patient = settings(deadline=None)  # the machine may be busy


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with ctx.workprec(256):
        yield


def quantile(p: float) -> arb:
    """Phi^-1(p), enclosed: comparing an arb is true only if it is true of every number it may be."""
    return arb(2).sqrt() * (2 * arb(p) - 1).erfinv()


def probabilities(rng: np.random.Generator, size: int) -> np.ndarray:
    """Anywhere, beside 1/2, beside 1 and beside 0, down to 1e-16 and 1e-30."""
    anywhere = rng.random(size)
    beside_half = 0.5 + rng.choice([-1, 1], size) * 10 ** rng.uniform(-16, -1, size)
    beside_one = 1 - 10 ** rng.uniform(-15.9, -1, size)
    beside_zero = 10 ** rng.uniform(-30, -1, size)
    return rng.permutation(np.concatenate([anywhere, beside_half, beside_one, beside_zero]))


# Identity


def test_known_radii():
    assert gaussian(1.0, 0.99) == pytest.approx(2.3263478740408408, rel=1e-14)
    assert gaussian(0.5, 0.5) == 0.0
    assert gaussian(0.5, 0.3) == 0.0
    assert gaussian(0.25, 1.0) == np.inf
    assert gaussian(2.0, 0.8, 0.1) == pytest.approx(0.8416212335729143 + 1.2815515655446004, rel=1e-14)


def test_a_runner_up_bound_can_certify_below_one_half():
    assert gaussian(1.0, 0.4) == 0.0
    assert gaussian(1.0, 0.4, 0.3) == pytest.approx((0.5244005127080407 - 0.2533471031357997) / 2, rel=1e-13)
    assert gaussian(1.0, 0.3, 0.4) == 0.0


@pytest.mark.parametrize(
    ("low", "high", "radius"), [(0, 0, 0), (0, 1, 0), (0, 0.5, 0), (1, 1, np.inf), (0.3, 0, np.inf), (0.5, 0.5, 0)]
)
def test_the_corners(low, high, radius):
    assert gaussian(1.0, low, high) == radius


def test_scalars_give_floats_and_arrays_give_arrays():
    assert type(gaussian(1, np.float64(0.9), 0.05)) is float
    table = gaussian([[0.25], [0.5]], [0.6, 0.9, 0.4], [0.1, 0.05, 0.6])
    assert table.shape == (2, 3)
    assert table[1, 1] == gaussian(0.5, 0.9, 0.05)
    assert type(largest(1.0, 100, 0.001)) is float
    assert largest(1.0, [5, 10, 100], 0.001).shape == (3,)


def test_the_largest_radius_is_zero_for_too_few_samples():
    assert largest(1.0, 9, 0.001) == 0.0
    assert largest(1.0, 10, 0.001) > 0.0


# Reference


def test_one_sided_is_never_above_the_exact_radius_and_next_to_it():
    rng = np.random.default_rng(1)
    for p in map(float, probabilities(rng, 1500)):
        sigma = float(10 ** rng.uniform(-2, 1))
        radius, exact = gaussian(sigma, p), sigma * quantile(p)
        if p <= 0.5:
            assert radius == 0.0
        else:
            assert exact * (1 - arb("1e-12")) < radius <= exact


def test_two_sided_is_never_above_the_exact_radius_and_next_to_it():
    # Where the quantiles cancel the error is absolute, measured by what cancels.
    rng = np.random.default_rng(2)
    for low, high in zip(probabilities(rng, 1000).tolist(), probabilities(rng, 1000).tolist(), strict=True):
        sigma = float(10 ** rng.uniform(-2, 1))
        z, rival = quantile(low), quantile(high).min(-quantile(low))
        radius, exact = gaussian(sigma, low, high), sigma / 2 * (z - rival)
        assert radius == 0 or radius <= exact
        assert radius >= exact - sigma * arb("1e-14") * (abs(z) + abs(rival))


def test_two_sided_next_to_cancellation():
    rng = np.random.default_rng(3)
    for low in map(float, probabilities(rng, 500)):
        high = float(np.clip(low * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-16, -8)), 0, 1))
        exact = (quantile(low) - quantile(high).min(-quantile(low))) / 2
        radius = gaussian(1.0, low, high)
        assert radius == 0 or radius <= exact


@pytest.mark.parametrize("n", [10, 100, 10**4, 10**7])
@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 0.5])
def test_largest_agrees_with_the_oracle(n, alpha):
    exact = quantile_of_root(alpha, n)
    assert abs(largest(0.5, n, alpha) - exact.max(arb(0)) / 2) < arb("1e-14") * (1 + abs(exact))


def quantile_of_root(alpha: float, n: int) -> arb:
    return arb(2).sqrt() * (2 * (arb(alpha).log() / n).exp() - 1).erfinv()


# Invariant

sigmas = st.floats(0.01, 10)
shares = st.floats(0, 1)


@patient
@given(sigmas, shares, shares)
def test_an_upper_bound_never_costs_radius(sigma, low, high):
    assert gaussian(sigma, low, high) >= gaussian(sigma, low)


@patient
@given(sigmas, shares, shares, st.floats(0, 0.2))
def test_better_bounds_never_shrink_the_radius(sigma, low, high, gain):
    better = gaussian(sigma, min(1.0, low + gain), max(0.0, high - gain))
    assert better >= gaussian(sigma, low, high) * (1 - 1e-13) - 1e-14 * sigma


@patient
@given(sigmas, st.integers(1, 10**7), st.floats(1e-12, 0.999))
def test_no_count_certifies_more_than_the_largest_radius(sigma, n, alpha):
    assert gaussian(sigma, clopper_pearson(n, n, alpha)) <= largest(sigma, n, alpha)


# Coverage


@pytest.mark.parametrize("n", [20, 100, 1000])
@pytest.mark.parametrize("alpha", [0.001, 0.05])
def test_an_affine_classifier_is_overcertified_at_most_alpha_of_the_time(n, alpha):
    # Its exact radius is the distance d to the hyperplane, and p_A = Phi(d / sigma).
    sigma, k = 0.5, np.arange(n + 1)
    radii = gaussian(sigma, clopper_pearson(k, n, alpha))
    for p in np.linspace(0.5005, 0.9995, 300):
        distance = float(sigma * quantile(float(p)))
        assert binom.pmf(k, n, p)[radii > distance].sum() <= alpha + 1e-12


# Requests


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0.0, 0.9), "sigma"),
        ((-1.0, 0.9), "sigma"),
        ((float("nan"), 0.9), "sigma"),
        ((float("inf"), 0.9), "sigma"),
        ((True, 0.9), "sigma"),
        ((1.0, 1.1), "lower"),
        ((1.0, float("nan")), "lower"),
        ((1.0, "0.9"), "lower"),
        ((1.0, 0.9, -0.1), "upper"),
        ((1.0, [0.9, 0.8], [0.1, 1.2]), "upper"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(arguments, complaint):
    with pytest.raises(RequestError, match=f"expected.*{complaint}.*got.*;"):
        gaussian(*arguments)


@pytest.mark.parametrize("arguments", [(1.0, 0, 0.1), (1.0, 2.5, 0.1), (1.0, 10, 0.0), (1.0, 10, 1.0), (0.0, 10, 0.1)])
def test_largest_refuses_a_wrong_request(arguments):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        largest(*arguments)
