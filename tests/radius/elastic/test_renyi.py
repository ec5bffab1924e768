"""The semi-elastic radius held against another theorem: a Renyi certificate, never above it and near its own theory."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax.radius import gaussian, semi_elastic
from tests.radius.elastic.renyi import ORDERS, renyi

patient = settings(deadline=None, max_examples=60)


@patient
@given(
    st.floats(0.51, 1 - 1e-9),
    st.floats(0.05, 2),
    st.floats(0, 2) | st.floats(1e-6, 0.05),
    st.sampled_from([1, 2, 90, 784, 3072, 196_608]),
)
def test_never_above_the_exact_radius(lower, sigma, rate, dim):
    assert renyi(sigma, lower, rate, dim) <= semi_elastic(sigma, lower, rate, dim)


@pytest.mark.parametrize("lower", [0.6, 0.9, 0.999])
@pytest.mark.parametrize("dim", [2, 784])
def test_constant_noise_gives_the_radius_of_li_et_al(lower, dim):
    # D_a = a r^2 / 2, so r^2 = sup over a of 2/a * (log(A^(1-a) + B^(1-a)) - a log 2) / (a - 1), any dimension.
    def square(a: float) -> float:
        powers = lower ** (1 - a) + (1 - lower) ** (1 - a)
        return 2 / a * (math.log(powers) - a * math.log(2)) / (a - 1)

    best = math.sqrt(max(square(float(a)) for a in ORDERS[ORDERS < 60]))
    assert renyi(1.0, lower, 0.0, dim) == pytest.approx(best, rel=1e-9)
    assert 0.75 * gaussian(1.0, lower) < best < gaussian(1.0, lower)


def test_it_is_of_use_in_high_dimension_too():
    for rate in (0.001, 0.01, 0.1):
        assert renyi(0.5, 0.99, rate, 3072) > 0.75 * semi_elastic(0.5, 0.99, rate, 3072)


def test_the_corners():
    assert renyi(1.0, 0.5, 0.1, 10) == 0.0
    assert renyi(1.0, 1.0, 0.1, 10) == math.inf
