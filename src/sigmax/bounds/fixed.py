"""Exact confidence bounds for a number of samples fixed beforehand, and how few samples can prove anything."""

# k of n votes; p the proportion they estimate; K ~ Binomial(n, p) the count before it was seen

from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln

from sigmax.bounds._checks import EPS, Flags, Floats, flat, level, shaped

Function = Callable[..., Floats]
_FEW = 40  # up to so many terms Boost sums a tail one by one
_TINY = 1e-200  # below it a tail probability loses digits to underflow, and then all of them
CLAIMED, PROVED = 8 * EPS, 2 * EPS  # by which a bound is rounded outwards; the difference is left to other machines


@overload
def lower(k: int, n: int, alpha: float, *, outwards: float = CLAIMED) -> float: ...
@overload
def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, outwards: float = CLAIMED) -> Any: ...
def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, outwards: float = CLAIMED) -> Any:
    """Lower confidence limit of a proportion: P[p < lower] <= alpha, whatever p is.

    It is the p at which k or more votes of n have probability alpha, rounded down; 0 if k = 0.
    Scalars give a float, arrays an array.

    Needs: n independent samples, n fixed beforehand; the class counted was fixed before they were sampled.
    Source: Clopper & Pearson (1934), as used by Cohen et al. (2019), Sec. 3.2.2.
    """
    hits, samples, alphas, shape = flat(k, n, alpha)
    some = hits > 0
    limit = np.zeros_like(hits)
    limit[some] = _limit(hits[some], samples[some], alphas[some], 1 - outwards, down=True)
    return shaped(limit, shape)


@overload
def upper(k: int, n: int, alpha: float, *, outwards: float = CLAIMED) -> float: ...
@overload
def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, outwards: float = CLAIMED) -> Any: ...
def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, outwards: float = CLAIMED) -> Any:
    """Upper confidence limit of a proportion: P[p > upper] <= alpha, whatever p is.

    It is the p at which k or fewer votes of n have probability alpha, rounded up; 1 if k = n.
    Scalars give a float, arrays an array.

    Needs: n independent samples, n fixed beforehand; the class counted was fixed before they were sampled, or k is the
    largest count of several classes and p the largest of their proportions (the bound rises with k).
    Source: Clopper & Pearson (1934).
    """
    hits, samples, alphas, shape = flat(k, n, alpha)
    short = hits < samples
    limit = np.ones_like(hits)
    limit[short] = _limit(hits[short] + 1, samples[short], alphas[short], 1 + outwards, down=False)
    return shaped(limit, shape)


def two_sided_p_value(k: int, m: int) -> float:
    """P-value of "the two leading classes are equally likely" when one has k of their m votes; never too small.

    Rejecting whenever it is <= alpha is wrong with probability at most alpha.

    Needs: m independent votes, each for one of the two.
    Source: the binomial test of PREDICT, Cohen et al. (2019), Sec. 3.2.1; at p = 1/2 both tails are equal.
    """
    hits, votes, _, _ = flat(k, m, 0.5)
    most = max(hits[0], votes[0] - hits[0])
    if 2 * most <= votes[0] + 1:
        return 1.0
    if most == votes[0]:
        return float(max(_TINY, 2 * 0.5**most))  # exact, so that it may equal alpha
    tail = betainc(most, votes[0] - most + 1, 0.5) * (1 + _tail_error(most, votes[0]))
    return float(min(1.0, max(_TINY, 2 * tail)))


def tail_above(k: int, n: int, p: float) -> float:
    """P[K >= k] for K ~ Binomial(n, p), rounded up: the p-value of "the proportion is at most p"."""
    return _rounded_tail(k, n, p, above=True) if k else 1.0


def tail_below(k: int, n: int, p: float) -> float:
    """P[K <= k] for K ~ Binomial(n, p), rounded up: the p-value of "the proportion is at least p"."""
    return _rounded_tail(k + 1, n, p, above=False) if k < n else 1.0


@lru_cache(maxsize=256)  # every certification asks
def fewest_samples(alpha: float) -> int:
    """Smallest n with lower(n, n, alpha) > 1/2: with fewer samples the one-sided rule can only abstain."""
    return next(n for n in count(1) if lower(n, n, alpha) > 0.5)


def fewest_samples_to_predict(alpha: float) -> int:
    """Smallest n with 2 * (1/2)^n <= alpha: with fewer votes the two-sided test can never reject."""
    level(alpha)
    return next(n for n in count(1) if 2 * 0.5**n <= alpha)


def _rounded_tail(j: int, n: int, p: float, *, above: bool) -> float:
    hits, samples, share, _ = flat(j, n, p)
    value = _tail(share, hits, samples, np.array([above])) * (1 + _tail_error(hits, samples))
    return float(min(1.0, max(_TINY, value[0])))


def _limit(j: Floats, n: Floats, alpha: Floats, outwards: float, *, down: bool) -> Floats:
    """The p at which P[K >= j] = alpha, rounded down, or P[K < j] = alpha, rounded up; for 1 <= j <= n.

    Solved for a tail off by twice the rounding in it, then checked. scipy's inverses only give the start:
    once in some ten thousand requests they are wrong in the tenth digit.
    """
    error = _tail_error(j, n)
    usual = alpha <= 0.5  # else the other tail is the smaller one, and 1 - alpha is exact
    tail = np.where(usual, alpha, 1 - alpha)
    above = usual == down
    target = tail * np.where(usual, 1 - 2 * error, 1 + 2 * error)
    p = _either(above, betaincinv, betainccinv, j, n - j + 1, target)
    for _ in range(2):
        p = _newton(p, j, n, target, above)
    p = np.minimum(1.0, p * outwards)
    value = _tail(p, j, n, above)
    proved = np.where(usual, value * (1 + error) <= tail, value >= tail * (1 + error))
    return np.where(proved, p, 0.0 if down else 1.0)


def _newton(p: Floats, j: Floats, n: Floats, target: Floats, above: Flags) -> Floats:
    """One step of p towards the tail wanted, kept inside [0, 1]."""
    with np.errstate(all="ignore"):  # a step from 0 or 1 leads nowhere, and fails the check
        slope = np.exp((j - 1) * np.log(p) + (n - j) * np.log1p(-p) - betaln(j, n - j + 1))
        step = (target - _tail(p, j, n, above)) / slope
        moved: Floats = np.clip(np.where(above, p + step, p - step), 0.0, 1.0)
    return moved


def _tail(p: Floats, j: Floats, n: Floats, above: Flags) -> Floats:
    """P[K >= j] where above, else P[K < j]."""
    value = _either(above, betainc, betaincc, j, n - j + 1, p)
    # Boost takes powers of a rounded 1 - p here, and for p = 1e-7 gets nine digits right.
    few = ~above & (j <= _FEW) & (p < 0.1)
    value[few] = _sum_below(p[few], j[few], n[few])
    return value


def _either(above: Flags, first: Function, second: Function, *arguments: Floats) -> Floats:
    """The first function where above, else the second; where all are alike only one is computed."""
    if above.all():
        return first(*arguments)
    if not above.any():
        return second(*arguments)
    mixed: Floats = np.where(above, first(*arguments), second(*arguments))
    return mixed


def _sum_below(p: Floats, j: Floats, n: Floats) -> Floats:
    """P[K < j], term by term in powers of the odds of p."""
    term, total = np.ones_like(p), np.ones_like(p)
    for i in range(1, int(j.max(initial=1))):
        term = np.where(i < j, term * (n - i + 1) / i * p / (1 - p), 0.0)
        total += term
    return np.exp(n * np.log1p(-p)) * total


def _tail_error(j: Floats, n: Floats) -> Floats:
    """Relative error that a computed P[K >= j] or P[K < j] stays below, unless it underflows.

    Less than half of it was measured against Arb for n up to 1e9, with scipy 1.12 and 1.17 (which errs less).
    It grows with the variance of K, what it costs a bound only with the root: 1e-12 at n = 1e5, 6e-12 at n = 1e7.
    """
    variance = j * (n - j + 1) / (n + 1)
    return EPS * (800 + 64 * np.sqrt(variance) + 8 * variance)
