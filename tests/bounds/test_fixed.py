"""Clopper-Pearson against known numbers, a rigorous oracle (Arb), statsmodels, and the order it must keep."""

from fractions import Fraction
from math import comb, nextafter

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportion_confint

from sigmax.bounds import fewest_samples, fewest_samples_to_predict, fixed, lower, two_sided_p_value, upper
from sigmax.bounds.fixed import PROVED, tail_above, tail_below
from sigmax.errors import RequestError

ALPHAS = (1e-12, 1e-6, 1e-3, 0.05, 0.5)
SAMPLES = (1, 2, 10, 100, 10**4, 10**6, 10**7)
NEAR = Fraction(1, 10**11)  # how near to the exact limit a bound must be, relatively

patient = settings(deadline=None)  # the machine may be busy


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with ctx.workprec(256):
        yield


def at_least(k: int, n: int, p: arb) -> arb:
    """P[K >= k], enclosed: comparing an arb is true only if it is true of every number it may be."""
    return p.beta_lower(arb(k), arb(n - k + 1), regularized=True) if k else arb(1)


def at_most(k: int, n: int, p: arb) -> arb:
    """P[K <= k], enclosed."""
    return (1 - p).beta_lower(arb(n - k), arb(k + 1), regularized=True) if k < n else arb(1)


def exactly(value: Fraction) -> arb:
    return arb(value.numerator) / value.denominator


def assert_just_below_the_limit(k: int, n: int, alpha: float) -> None:
    bound = Fraction(lower(k, n, alpha))
    if k == 0:
        assert bound == 0
        return
    proved = Fraction(lower(k, n, alpha, outwards=PROVED))
    assert bound <= proved
    assert at_least(k, n, exactly(proved)) < alpha
    assert at_least(k, n, exactly(min(Fraction(1), bound * (1 + NEAR)))) > alpha


def assert_just_above_the_limit(k: int, n: int, alpha: float) -> None:
    bound = Fraction(upper(k, n, alpha))
    if k == n:
        assert bound == 1
        return
    proved = Fraction(upper(k, n, alpha, outwards=PROVED))
    assert bound >= proved
    assert at_most(k, n, exactly(proved)) < alpha
    assert at_most(k, n, exactly(bound * (1 - NEAR))) > alpha


# Identity


def test_all_and_none_have_closed_forms():
    assert lower(0, 50, 0.01) == 0.0
    assert upper(50, 50, 0.01) == 1.0
    assert lower(50, 50, 0.01) == pytest.approx(0.01 ** (1 / 50), rel=1e-12)
    assert upper(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50), rel=1e-12)


def test_no_samples_prove_nothing():
    assert lower(0, 0, 0.01) == 0.0
    assert upper(0, 0, 0.01) == 1.0


@pytest.mark.parametrize(("alpha", "certify", "predict"), [(0.001, 10, 11), (0.5, 2, 2), (0.05, 5, 6), (2**-9, 10, 10)])
def test_fewest_samples(alpha, certify, predict):
    assert fewest_samples(alpha) == certify
    assert lower(certify, certify, alpha) > 0.5 >= lower(certify - 1, certify - 1, alpha)
    assert fewest_samples_to_predict(alpha) == predict
    assert two_sided_p_value(predict, predict) <= alpha < two_sided_p_value(predict - 1, predict - 1)


def test_scalars_give_floats_and_arrays_give_arrays():
    for bound in (lower, upper):
        assert type(bound(np.int64(9), 10, np.float64(0.1))) is float
        table = bound([[1], [2]], [10, 20, 30], 0.05)
        assert table.shape == (2, 3)
        assert table[1, 2] == bound(2, 30, 0.05)
        assert bound([], [], 0.05).shape == (0,)


# Reference


def test_the_oracle_agrees_with_exact_sums():
    p, n = Fraction(3, 10), 30
    for k in range(n + 1):
        terms = (comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
        assert abs(at_least(k, n, exactly(p)) - exactly(sum(terms))) < 1e-60


@pytest.mark.parametrize("n", SAMPLES)
def test_lower_and_upper_enclose_the_exact_limits(n):
    for k in {0, 1, n // 2, n - 1, n}:
        for alpha in ALPHAS:
            assert_just_below_the_limit(k, n, alpha)
            assert_just_above_the_limit(k, n, alpha)


@st.composite
def counts(draw, most=10**7):
    """k of n, with n of every size and k near 0, near n and between."""
    n = draw(st.one_of(st.integers(1, 100), st.integers(1, 10_000), st.integers(1, most)))
    k = draw(st.one_of(st.integers(0, min(n, 60)), st.integers(0, n), st.integers(max(0, n - 60), n)))
    return k, n


alphas = st.one_of(st.floats(-30, -0.01).map(lambda x: 10**x), st.floats(1e-6, 1 - 1e-6))


@settings(patient, max_examples=300)
@given(counts(), alphas)
def test_lower_and_upper_enclose_the_exact_limits_anywhere(votes, alpha):
    assert_just_below_the_limit(*votes, alpha)
    assert_just_above_the_limit(*votes, alpha)


def test_upper_keeps_its_digits_where_it_is_tiny():
    for k in range(1, 60):  # scipy alone is wrong by 1e-10 here
        assert_just_above_the_limit(k, 10**7, 0.05)
        assert_just_below_the_limit(k, 10**7, 0.95)


def test_the_margins_cost_next_to_nothing():
    """Of a bound, less than 1e-12 at 1e5 samples and 6e-12 at 1e7."""
    for n, near in ((1, 1e-12), (30, 3e-13), (1000, 3e-13), (10**5, 1e-12), (10**7, 6e-12)):
        for k in {n // 2, n - 1, n} - {0}:
            assert at_least(k, n, arb(lower(k, n, 1e-3)) * (1 + arb(near))) > arb(1e-3), (k, n)


def test_a_failure_of_scipys_inverse_is_caught():
    k, n, alpha = 18_659_473, 18_660_472, 9.97833904445579e-28  # betaincinv alone is too high by 2e-10 here
    assert_just_below_the_limit(k, n, alpha)


@pytest.mark.parametrize("shift", [1 - 1e-3, 1 - 1e-9, 1 + 1e-9, 1 + 1e-3, 2.0, float("nan")])
def test_a_wrong_start_never_makes_a_wrong_bound(monkeypatch, shift):
    for name in ("betaincinv", "betainccinv"):
        inverse = getattr(fixed, name)
        monkeypatch.setattr(fixed, name, lambda *args, inverse=inverse: np.minimum(1, inverse(*args) * shift))
    for k, n, alpha in ((5, 10, 0.05), (99, 100, 0.001), (9_900, 10_000, 0.001), (3, 10_000, 0.001), (7, 9, 0.9)):
        low, high = lower(k, n, alpha), upper(k, n, alpha)
        assert low == 0 or at_least(k, n, arb(low)) < alpha
        assert high == 1 or at_most(k, n, arb(high)) < alpha


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_tail_as_wrong_as_it_may_be_makes_no_wrong_bound(monkeypatch, sign):
    """scipy stays far within the error allowed for: here it does not, and every margin is needed."""
    for name in ("betainc", "betaincc"):
        exact = getattr(fixed, name)
        monkeypatch.setattr(fixed, name, lambda a, b, p, exact=exact: exact(a, b, p) * (1 + sign * 0.9 * allowed(a, b)))
    for n in (3, 100, 10**5, 10**9):
        for k in {1, n // 3, n - n // 20 - 1, n - 1}:
            for alpha in (1e-9, 0.05, 0.95):
                assert at_least(k, n, arb(lower(k, n, alpha))) < alpha
                assert at_most(k, n, arb(upper(k, n, alpha))) < alpha
            assert tail_above(k, n, 0.7) == 1 or at_least(k, n, arb(0.7)) <= tail_above(k, n, 0.7)
            assert tail_below(k, n, 0.7) == 1 or at_most(k, n, arb(0.7)) <= tail_below(k, n, 0.7)
    assert 2 * at_least(60, 100, arb(0.5)) <= two_sided_p_value(60, 100)


def allowed(a: float, b: float) -> float:
    """The relative error of a tail that the bounds claim to survive, from its two parameters."""
    variance = a * b / (a + b)
    return 2.0**-52 * (800 + 64 * variance**0.5 + 8 * variance)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05])
def test_statsmodels_agrees(alpha):
    k = np.arange(1, 1000)
    low, high = proportion_confint(k, 1000, alpha=2 * alpha, method="beta")
    np.testing.assert_allclose(lower(k, 1000, alpha), low, rtol=1e-10)
    np.testing.assert_allclose(upper(k, 1000, alpha), high, rtol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 11, 40, 101])
def test_p_value_is_exact_and_never_too_small(m):
    for k in range(m + 1):
        most = max(k, m - k)
        exact = min(Fraction(1), 2 * Fraction(sum(comb(m, i) for i in range(most, m + 1)), 2**m))
        value = two_sided_p_value(k, m)
        assert exact <= Fraction(value) <= exact * (1 + NEAR)
        assert value == pytest.approx(binomtest(k, m).pvalue, rel=1e-10)


@pytest.mark.parametrize(("k", "m"), [(501_000, 10**6), (505_000, 10**6), (5_005_000, 10**7), (4_990_000, 10**7)])
def test_p_value_of_many_votes_is_never_too_small_and_near(k, m):
    exact = 2 * at_least(max(k, m - k), m, arb(0.5))
    assert exact <= two_sided_p_value(k, m)
    assert exact * (1 + arb("1e-8")) >= two_sided_p_value(k, m)


def test_p_value_never_underflows_to_certainty():
    assert 0 < two_sided_p_value(10**6, 10**6) <= 1e-200
    assert 0 < two_sided_p_value(10**6 - 1, 10**6) <= 1e-200


# Invariant


@patient
@given(counts(most=10**6), alphas)
def test_more_votes_raise_both_bounds(votes, alpha):
    k, n = votes
    assume(k < n)
    assert lower(k, n, alpha) < lower(k + 1, n, alpha)
    assert upper(k, n, alpha) < upper(k + 1, n, alpha) or upper(k, n, alpha) > 1 - 1e-14


@patient
@given(counts(most=10**6), alphas)
def test_more_samples_at_the_same_count_lower_both_bounds(votes, alpha):
    k, n = votes
    assert k == 0 or lower(k, n + 1, alpha) < lower(k, n, alpha)
    assert upper(k, n + 1, alpha) < upper(k, n, alpha) or upper(k, n + 1, alpha) > 1 - 1e-14


@patient
@given(counts(), alphas, st.floats(1e-3, 0.99))
def test_a_larger_alpha_tightens_both_bounds(votes, alpha, share):
    k, n = votes
    assume(alpha * share >= 1e-30)
    assert lower(k, n, alpha * share) <= lower(k, n, alpha)
    assert upper(k, n, alpha * share) >= upper(k, n, alpha)


@patient
@given(counts(), st.floats(1e-30, 0.5))
def test_the_observed_share_lies_between_the_bounds(votes, alpha):
    k, n = votes
    assert lower(k, n, alpha) <= k / n <= upper(k, n, alpha)


@patient
@given(counts(), alphas)
def test_the_bounds_mirror_each_other(votes, alpha):
    k, n = votes
    assert upper(k, n, alpha) == pytest.approx(1 - lower(n - k, n, alpha), rel=1e-9, abs=1e-14)


@patient
@given(st.lists(st.tuples(counts(), alphas), min_size=1, max_size=20))
def test_an_array_holds_what_scalars_give(requests):
    k, n, alpha = np.array([(k, n, alpha) for (k, n), alpha in requests]).T
    for bound in (lower, upper):
        np.testing.assert_array_equal(bound(k, n, alpha), [bound(*votes, a) for votes, a in requests])


# Requests


@pytest.mark.parametrize("bound", [lower, upper])
@pytest.mark.parametrize(
    ("k", "n", "alpha", "complaint"),
    [
        (3, 2, 0.1, "k <= n"),
        (-1, 2, 0.1, "k to be a whole number"),
        (0.5, 2, 0.1, "k to be a whole number"),
        (float("nan"), 2, 0.1, "k to be a whole number"),
        (True, 2, 0.1, "k to be a number"),
        ("1", 2, 0.1, "k to be a number"),
        (1, 2.5, 0.1, "n to be a whole number"),
        (1, float("inf"), 0.1, "n to be a whole number"),
        (1, [2, 3, 0], 0.1, "k <= n"),
        (1, 2, 0.0, "alpha"),
        (1, 2, 1.0, "alpha"),
        (1, 2, float("nan"), "alpha"),
        (1, 2, [0.1, -0.1], "alpha"),
        (1, 2, nextafter(1e-30, 0), "alpha"),
        (1, 10**9 + 1, 0.1, "n to be a whole number"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(bound, k, n, alpha, complaint):
    with pytest.raises(RequestError, match=f"expected {complaint}.*got.*;"):
        bound(k, n, alpha)


@pytest.mark.parametrize(("k", "m"), [(1050, 1085), (1124, 1159), (3000, 3000)])
def test_a_p_value_beyond_all_floats_is_not_reported_smaller_than_it_is(k, m):
    assert two_sided_p_value(k, m) == 1e-200


@pytest.mark.parametrize("n", [1, 2, 30, 1000])
@pytest.mark.parametrize("p", [0.5, 0.6, 0.75, 0.999])
def test_tails_are_rounded_up_by_next_to_nothing(n, p):
    for k in {0, 1, n // 3, n // 2, n - 1, n}:
        above = tail_above(k, n, p), at_least(k, n, arb(p))
        below = tail_below(k, n, p), at_most(k, n, arb(p))
        for found, exact in (above, below):
            assert found == 1 or exact <= found
            assert found <= max(exact * (1 + arb("1e-11")), arb("1e-200"), key=float)


def test_the_ends_of_what_was_measured_are_still_bounded():
    assert_just_above_the_limit(7, 10**9, 0.01)
    assert_just_below_the_limit(7, 20, 1e-30)
