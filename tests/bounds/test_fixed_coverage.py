"""The chance that a bound is wrong, added up over every count there can be: at most alpha for every p."""

from fractions import Fraction
from math import comb, inf, nextafter

import numpy as np
import pytest
from scipy.stats import binom

from sigmax.bounds import lower, upper

SAMPLES = (*range(1, 31), 50, 100, 200)
ALPHAS = (1e-6, 1e-3, 0.05, 0.5)


def chance_of_at_least(k: int, n: int, p: float) -> Fraction:
    """P[K >= k] in whole numbers: no rounding at all."""
    hit, whole = p.as_integer_ratio()
    ways = sum(comb(n, i) * hit**i * (whole - hit) ** (n - i) for i in range(k, n + 1))
    return Fraction(ways, whole**n)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_lower_is_wrong_at_most_alpha_where_it_is_wrong_most(alpha):
    # Between two bounds the counts that err stay the same and grow likelier with p,
    # so the worst p are those just below a bound: there k and every larger count err.
    for n in (*range(1, 31), 50, 100):
        for k, bound in enumerate(lower(np.arange(n + 1), n, alpha)[1:], start=1):
            assert chance_of_at_least(k, n, float(bound)) <= alpha


@pytest.mark.parametrize("alpha", ALPHAS)
def test_upper_is_wrong_at_most_alpha_where_it_is_wrong_most(alpha):
    for n in (*range(1, 31), 50, 100):
        for k, bound in enumerate(upper(np.arange(n + 1), n, alpha)[:-1]):
            assert 1 - chance_of_at_least(k + 1, n, float(bound)) <= alpha


def beside(points: np.ndarray) -> np.ndarray:
    """The points inside (0, 1), their neighbours, and a fine grid."""
    inner = points[(points > 0) & (points < 1)]
    near = [nextafter(p, to) for p in inner for to in (-inf, inf)]
    return np.unique([*inner, *near, *np.linspace(0.0005, 0.9995, 400)])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_both_are_wrong_at_most_alpha_everywhere(alpha):
    for n in SAMPLES:
        k = np.arange(n + 1)[:, None]
        for bound, errs in ((lower, np.less), (upper, np.greater)):
            limits = bound(k, n, alpha)
            p = beside(limits.ravel())
            wrong = np.sum(binom.pmf(k, n, p) * errs(p, limits), axis=0)
            assert wrong.max() <= alpha + 1e-12


@pytest.mark.parametrize("n", [20, 200])
def test_the_bounds_are_not_needlessly_wide(n):
    limits = lower(np.arange(n + 1), n, 0.05)
    worst = max(chance_of_at_least(k, n, float(p)) for k, p in enumerate(limits) if k)
    assert worst > 0.05 * (1 - 1e-9)
