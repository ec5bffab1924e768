"""The betting bound against a rigorous oracle (Arb), and the exact chance that it ever errs."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from scipy.stats import binomtest

from sigmax.bounds import anytime, betting_lower, lower
from sigmax.errors import RequestError

NEAR = Fraction(1, 10**9)  # how near to the exact root a bound must be, relatively

patient = settings(deadline=None)  # the machine may be busy


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with ctx.workprec(256):
        yield


def log_beta(x: arb, y: arb) -> arb:
    return x.lgamma() + y.lgamma() - (x + y).lgamma()


def excess(p: Fraction, k: int, n: int, alpha: float, prior: tuple[float, float]) -> arb:
    """log W(p) - log(1/alpha), enclosed: comparing an arb is true only if it is true of every number it may be."""
    a, b = arb(prior[0]), arb(prior[1])
    x = arb(p.numerator) / p.denominator
    wealth = log_beta(k + a, n - k + b) - log_beta(a, b) - k * x.log()
    if k < n:
        wealth -= (n - k) * (1 - x).log()
    return wealth + arb(alpha).log()


def assert_just_below_the_root(k: int, n: int, alpha: float, prior: tuple[float, float] = (0.5, 0.5)) -> None:
    p = Fraction(betting_lower(k, n, alpha, prior))
    if p == 0:
        assert excess(Fraction(1, 10**299), k, n, alpha, prior) < 0  # a root that a double could hardly hold
        return
    assert p < Fraction(k, n)  # left of k/n the wealth falls, so it crosses once
    assert excess(p, k, n, alpha, prior) > 0
    assert excess(p * (1 + NEAR), k, n, alpha, prior) < 0


# Identity


def test_nothing_is_proved_without_a_vote():
    assert betting_lower(0, 0, 0.05) == 0.0
    assert betting_lower(0, 1000, 0.05) == 0.0


def test_one_vote_of_one():
    # The mean of Beta(1/2, 1/2) is 1/2, so W(p) = 1 / (2p).
    assert betting_lower(1, 1, 0.05) == pytest.approx(0.025, rel=1e-12)


def test_scalars_give_floats_and_arrays_give_arrays():
    assert type(betting_lower(np.int64(9), 10, 0.1)) is float
    table = betting_lower([[0], [2]], [10, 20, 30], 0.05)
    assert table.shape == (2, 3)
    assert table[1, 2] == betting_lower(2, 30, 0.05)
    assert not table[0].any()


# Reference


@pytest.mark.parametrize("n", [1, 2, 10, 100, 10**4, 10**6, 10**7])
def test_it_is_just_below_the_exact_root(n):
    for k in {1, n // 100, n // 2, n - n // 1000, n - 1, n} - {0}:
        for alpha in (1e-12, 1e-6, 1e-3, 0.05, 0.5, 0.99):
            assert_just_below_the_root(k, n, alpha)


@st.composite
def counts(draw, most=10**7):
    """k >= 1 of n, with n of every size and k near 1, near n and between."""
    n = draw(st.one_of(st.integers(1, 100), st.integers(1, 10_000), st.integers(1, most)))
    k = draw(st.one_of(st.integers(1, min(n, 60)), st.integers(1, n), st.integers(max(1, n - 60), n)))
    return k, n


alphas = st.one_of(st.floats(-30, -0.01).map(lambda x: 10**x), st.floats(1e-6, 1 - 1e-6))


@settings(patient, max_examples=300)
@given(counts(), alphas)
def test_it_is_just_below_the_exact_root_anywhere(votes, alpha):
    assert_just_below_the_root(*votes, alpha)


@settings(patient, max_examples=200)
@given(counts(), alphas, st.floats(0.01, 200), st.floats(0.01, 200))
def test_it_is_just_below_the_exact_root_for_any_prior(votes, alpha, a, b):
    assert_just_below_the_root(*votes, alpha, (a, b))


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_wealth_as_wrong_as_it_may_be_makes_no_wrong_bound(monkeypatch, sign):
    """Rounding stays far within what is allowed for: here it does not, and the margins are needed."""
    exact = anytime._without_p

    def wrong(k, n, alpha, prior):
        known, size = exact(k, n, alpha, prior)
        (a, b), (hits, samples, level) = prior, (float(k[0]), float(n[0]), float(alpha[0]))
        after, before = (betaln(hits + a, samples - hits + b), betaln(a, b))
        terms = 64 - after + abs(before) - np.log(level) + np.log(samples + a + b)
        return known + sign * 7.5 * 2.0**-52 * terms, size

    monkeypatch.setattr(anytime, "_without_p", wrong)
    for k, n in ((1, 1), (1, 100), (50, 100), (100, 100), (9_000, 10_000), (10**7 - 5, 10**7)):
        for prior in ((0.5, 0.5), (1e-3, 200.0), (1e4, 1e4)):
            assert excess(Fraction(betting_lower(k, n, 0.01, prior)), k, n, 0.01, prior) > 0


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.25, 0.01), (20.0, 3.0)])
def test_few_votes_of_either_kind_together_many(prior):
    """Where one part of the wealth's logarithm is computed by a series and the others are not yet."""
    for k, n in ((16, 31), (16, 32), (10, 33), (31, 33), (1, 40), (31, 62), (32, 64), (70, 75), (3, 75)):
        assert_just_below_the_root(k, n, 0.05, prior)


def test_a_prior_that_makes_the_bound_vanish_gives_zero():
    assert betting_lower(1, 10_000, 1e-12, (1e4, 1e-3)) == 0.0


# Invariant


@patient
@given(counts(most=10**6), st.floats(1e-30, 0.9))
def test_it_is_never_above_the_bound_for_one_n(votes, alpha):
    # Clopper-Pearson is the largest bound that rises with k and is valid at one n; this one is valid there too.
    assert betting_lower(*votes, alpha) <= lower(*votes, alpha)


@patient
@given(counts(most=10**6), alphas)
def test_it_rises_with_votes_and_falls_with_samples(votes, alpha):
    k, n = votes
    assert betting_lower(k, n + 1, alpha) < betting_lower(k, n, alpha) < betting_lower(k + 1, n + 1, alpha)


@patient
@given(counts(), alphas, st.floats(1e-3, 0.99))
def test_a_larger_alpha_raises_it(votes, alpha, share):
    assume(alpha * share >= 1e-30)
    assert betting_lower(*votes, alpha * share) <= betting_lower(*votes, alpha)


@patient
@given(st.lists(st.tuples(counts(), alphas), min_size=1, max_size=20))
def test_an_array_holds_what_scalars_give(requests):
    k, n, alpha = np.array([(k, n, alpha) for (k, n), alpha in requests]).T
    scalars = [betting_lower(*votes, a) for votes, a in requests]
    np.testing.assert_allclose(betting_lower(k, n, alpha), scalars, rtol=1e-15)


# Coverage


def fewest_erring(p: float, horizon: int, alpha: float, prior: tuple[float, float]) -> np.ndarray:
    """For every n up to the horizon the smallest count whose bound lies above p; n + 1 if there is none."""
    n = np.arange(1, horizon + 1)
    low, high = np.zeros_like(n), n + 1  # the bound of low is not above p, that of high is (by convention at n + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        errs = betting_lower(np.minimum(middle, n), n, alpha, prior) > p
        low, high = np.where(errs, low, middle), np.where(errs, middle, high)
    return high


def chance_of_ever_erring(p: float, fewest: np.ndarray) -> float:
    """Exact, by carrying the chance of every count that has not erred so far from one draw to the next."""
    alive, erred = np.array([1.0]), 0.0
    for limit in fewest:
        alive = np.append(alive * (1 - p), 0.0) + np.append(0.0, alive * p)
        erred += alive[limit:].sum()
        alive[limit:] = 0.0
    return float(erred)


def test_the_search_finds_the_counts_that_err():
    p, horizon, alpha = 0.7, 60, 0.05
    for n, limit in enumerate(fewest_erring(p, horizon, alpha, (0.5, 0.5)), start=1):
        assert list(betting_lower(np.arange(n + 1), n, alpha) > p) == [k >= limit for k in range(n + 1)]


@pytest.mark.parametrize("prior", [(0.5, 0.5), (1.0, 1.0), (40.0, 2.0)])
@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
def test_it_ever_errs_with_chance_at_most_alpha(p, alpha, prior):
    fewest = fewest_erring(p, 1500, alpha, prior)
    assert chance_of_ever_erring(p, fewest) <= alpha + 1e-12


def test_the_fixed_bound_would_err_if_looked_at_always():
    # What the test above can see: Clopper-Pearson, checked after every draw, errs far more often than alpha.
    limits = (lower(np.arange(n + 1), n, 0.05) for n in range(1, 301))
    fewest = [np.searchsorted(limit, 0.5, side="right") for limit in limits]
    assert chance_of_ever_erring(0.5, np.array(fewest)) > 0.2


@pytest.mark.parametrize("p", [0.2, 0.5, 0.95])
def test_simulated_paths_err_no_more_often_than_alpha(p):
    alpha, horizon, paths = 0.05, 3000, 3000
    rng = np.random.default_rng(2019)
    fewest = fewest_erring(p, horizon, alpha, (0.5, 0.5))
    erring = sum(
        np.any(np.cumsum(rng.random((100, horizon)) < p, axis=1) >= fewest, axis=1).sum() for _ in range(paths // 100)
    )
    assert binomtest(int(erring), paths, alpha, alternative="greater").pvalue > 1e-3


# Requests


@pytest.mark.parametrize("prior", [(1e-6, 1e6), (1e6, 1e-6), (1e6, 1e6)])
def test_the_ends_of_what_a_prior_may_be_are_still_bounded(prior):
    assert_just_below_the_root(90, 100, 0.01, prior)


@pytest.mark.parametrize(
    "prior", [(0.0, 0.5), (0.5, -1.0), (float("nan"), 0.5), (0.5, float("inf")), (1.01e6, 0.5), (0.5, 1.01e6)]
)
def test_a_wrong_prior_is_refused(prior):
    with pytest.raises(RequestError, match=r"expected a prior.*got.*;"):
        betting_lower(1, 2, 0.1, prior)


@pytest.mark.parametrize(("k", "n", "alpha"), [(3, 2, 0.1), (0.5, 2, 0.1), (True, 2, 0.1), (1, 2, 0.0), (1, 2, np.nan)])
def test_a_wrong_request_is_refused(k, n, alpha):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        betting_lower(k, n, alpha)
