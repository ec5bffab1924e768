"""Published numbers that bounds and radii together must reproduce."""

import numpy as np
import pytest
from scipy.stats import binom

from sigmax.bounds import lower
from sigmax.radius import gaussian, largest


@pytest.mark.parametrize(
    ("alpha", "radii"),
    [(1e-3, (2.2900, 0.8277, 0.2409)), (5e-4, (2.2877, 0.8267, 0.2401)), (2e-4, (2.2848, 0.8256, 0.2391))],
)
def test_radii_of_a_hundred_thousand_samples(alpha, radii):
    n = 100_000
    for share, radius in zip((0.99, 0.8, 0.6), radii, strict=True):
        assert gaussian(1.0, lower(round(share * n), n, alpha)) == pytest.approx(radius, abs=5e-5)


def test_largest_radii():
    expected = {100: 1.5005, 1_000: 2.4633, 10_000: 3.1986, 100_000: 3.8115}
    for n, radius in expected.items():
        assert largest(1.0, n, 1e-3) == pytest.approx(radius, abs=5e-5)
        assert gaussian(1.0, lower(n, n, 1e-3)) == pytest.approx(radius, abs=5e-5)


def test_the_least_share_that_certifies_one_half():
    k = np.arange(101)
    assert k[gaussian(1.0, lower(k, 100, 0.01)) >= 0.5].min() / 100 == 0.81


def test_the_least_share_with_a_positive_radius():
    k = np.arange(17)
    assert k[gaussian(1.0, lower(k, 16, 0.1)) > 0].min() / 16 == 0.75


def radius_of_constant(n: int) -> float:
    """ACR of always naming one of two balanced classes: p_A = 1 on half of the inputs and 0 on the others."""
    return gaussian(1.0, lower(n, n, 1e-3)) / 2


@pytest.mark.parametrize(("n", "constant", "even"), [(50, 0.565, 0.544), (100, 0.750, 0.757), (200, 0.913, 0.909)])
def test_average_radius_ranks_two_classifiers_by_the_number_of_samples(n, constant, even):
    # Sun et al. (2025), Sec. 4.1. Theirs is the radius at the count 0.9 n, not the average over counts.
    assert radius_of_constant(n) == pytest.approx(constant, abs=5e-4)
    assert gaussian(1.0, lower(9 * n // 10, n, 1e-3)) == pytest.approx(even, abs=5e-4)


@pytest.mark.parametrize(
    ("n", "even", "constant_wins"),
    [(50, 0.560, True), (100, 0.767, False), (200, 0.915, False), (250, 0.953, True)],
)
def test_averaged_over_the_counts_the_order_flips_twice_as_well(n, even, constant_wins):
    k = np.arange(n + 1)
    average = binom.pmf(k, n, 0.9) @ gaussian(1.0, lower(k, n, 1e-3))
    assert average == pytest.approx(even, abs=5e-4)
    assert (radius_of_constant(n) > average) == constant_wins
