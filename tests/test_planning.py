import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from sigmax import RequestError
from sigmax.bounds import lower
from sigmax.planning import MOST_SAMPLES, chance_to_certify, least_votes, radius_of, samples_needed
from sigmax.radius import Uniform, gaussian, largest_uniform
from sigmax.rules.smoothed import SmoothedRule


def test_the_papers_least_shares() -> None:
    """Sun et al. (2025), App. B.1 and Sec. 5.2."""
    assert least_votes(0.5, sigma=1.0, n=100, alpha=0.01) == 81
    assert least_votes(0.0, sigma=1.0, n=16, alpha=0.1) == 12


@given(
    st.integers(1, 400),
    st.floats(1e-4, 0.4),
    st.floats(0.1, 2.0),
    st.lists(st.floats(0.0, 6.0), min_size=1, max_size=5),
)
def test_least_votes_are_what_looking_at_every_count_gives(n, alpha, sigma, radii) -> None:
    reached = gaussian(sigma, lower(np.arange(n + 1), n, alpha))
    for r, votes in zip(radii, least_votes(radii, sigma=sigma, n=n, alpha=alpha), strict=True):
        enough = np.flatnonzero((reached >= r) & (reached > 0))
        assert votes == (enough[0] if len(enough) else n + 1)


@pytest.mark.parametrize(
    ("radius", "sigma", "p", "alpha", "chance"),
    [
        (0.5, 0.25, 0.99, 1e-3, 0.95),
        (0.25, 0.5, 0.9, 1e-3, 0.5),
        (0.0, 1.0, 0.7, 0.01, 0.9),
        (1.0, 0.5, 1.0, 1e-3, 0.95),
    ],
)
def test_no_fewer_samples_would_do(radius, sigma, p, alpha, chance) -> None:
    found = samples_needed(radius, sigma=sigma, p=p, alpha=alpha, chance=chance)
    assert found.samples is not None
    chances = [chance_to_certify(radius, sigma=sigma, n=n, alpha=alpha, p=p) for n in range(1, found.samples + 1)]
    assert chances[-1] >= chance
    assert max(chances[:-1]) < chance


def test_the_chance_is_that_of_the_counts_that_certify() -> None:
    n, p = 300, 0.95
    k = np.arange(n + 1)
    expected = binom.pmf(k, n, p)[gaussian(0.5, lower(k, n, 1e-3)) >= 0.6].sum()
    assert chance_to_certify(0.6, sigma=0.5, n=n, alpha=1e-3, p=p) == pytest.approx(expected, rel=1e-9)


def test_many_samples_near_the_limit_are_enough_and_hardly_too_many() -> None:
    found = samples_needed(0.5, sigma=0.25, p=0.978)
    assert found.samples == 873_036
    for n, enough in ((873_036, True), (860_000, False)):
        assert (chance_to_certify(0.5, sigma=0.25, n=n, alpha=1e-3, p=0.978) >= 0.95) == enough


def test_what_is_out_of_reach() -> None:
    found = samples_needed(0.5, sigma=0.25, p=0.97)
    assert found.samples is None
    assert not found.in_reach
    assert found.limit == pytest.approx(0.25 * norm.ppf(0.97))
    assert found.least_p == pytest.approx(norm.cdf(2.0))
    assert found.least_sigma == pytest.approx(0.5 / norm.ppf(0.97))
    assert samples_needed(0.5, sigma=0.25, p=0.4).least_sigma is None


def test_more_than_a_billion_samples_are_not_named() -> None:
    found = samples_needed(0.5, sigma=0.25, p=float(norm.cdf(2.0)) + 1e-7)
    assert found.in_reach
    assert found.samples is None
    assert samples_needed(3.0, sigma=0.25, p=1.0).unanimous is None  # 12 sigma
    assert MOST_SAMPLES == 10**9


def test_unanimous_votes_are_the_fewest_that_could() -> None:
    found = samples_needed(0.5, sigma=0.25, p=0.99)
    n = found.unanimous
    assert n == 301
    assert radius_of(n, sigma=0.25, n=n, alpha=1e-3) >= 0.5 > radius_of(n - 1, sigma=0.25, n=n - 1, alpha=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": 0.0}, "sigma must be a positive number"),
        ({"alpha": 1.0}, "alpha must lie strictly between"),
        ({"p": 1.5}, "p must be a probability from 0 to 1"),
        ({"chance": 1.0}, "chance must lie strictly between"),
        ({"radius": -1.0}, "radius must be a number of at least 0"),
        ({"radius": float("nan")}, "radius must be a number of at least 0"),
    ],
)
def test_wrong_requests(change, message) -> None:
    asked = {"radius": 0.5, "sigma": 0.25, "p": 0.99, **change}
    with pytest.raises(RequestError, match=message):
        samples_needed(asked.pop("radius"), **asked)


def test_planning_needs_no_torch() -> None:
    code = "import sys, sigmax.planning; assert not {'torch', 'pandas', 'matplotlib'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_uniform_noise_is_planned_by_its_own_radii() -> None:
    """Looking at every count, and every n, as for Gaussian noise."""
    n, alpha = 200, 1e-3
    rule = SmoothedRule(Uniform(2.0), 2)
    reached = [rule.estimate(0, (k, n - k), alpha).radius for k in range(n + 1)]
    assert [radius_of(k, sigma=2.0, n=n, alpha=alpha, noise="uniform") for k in range(n + 1)] == reached
    for r in (0.0, 0.3, 1.0, 1.9, 2.5):
        enough = [k for k, found in enumerate(reached) if found and found >= r]
        assert least_votes(r, sigma=2.0, n=n, alpha=alpha, noise="uniform") == (enough[0] if enough else n + 1)
    found = samples_needed(0.5, sigma=1.0, p=0.9, noise="uniform")
    asked = {"sigma": 1.0, "alpha": 1e-3, "p": 0.9, "noise": "uniform"}
    chances = [chance_to_certify(0.5, n=n, **asked) for n in range(1, found.samples + 1)]
    assert chances[-1] >= 0.95 > max(chances[:-1])
    assert (found.least_p, found.limit, found.least_sigma) == pytest.approx((0.75, 0.8, 0.625))
    assert not samples_needed(1.0, sigma=1.0, p=1.0, noise="uniform").in_reach
    assert largest_uniform(2.0, n, alpha) == pytest.approx(reached[-1])
    with pytest.raises(RequestError, match="noise must be one of gaussian, uniform"):
        least_votes(0.5, sigma=1.0, n=100, alpha=alpha, noise="cauchy")
