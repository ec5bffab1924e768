"""Exact confidence bounds for a number of draws fixed beforehand, and how few draws can prove anything."""

# k of n votes; p the proportion they estimate; K ~ Binomial(n, p) the count before it was seen

from itertools import count
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betainccinv, betaincinv

from sigmax.bounds._checks import EPS, Floats, flat, level, shaped

_FEW = 40  # up to so many votes Boost sums the tail term by term
_TINY = 1e-290  # below it a tail probability loses digits to underflow


@overload
def lower(k: int, n: int, alpha: float) -> float: ...
@overload
def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any: ...
def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any:
    """Lower confidence limit of a proportion: P[p < lower] <= alpha, whatever p is.

    It is the p at which k or more votes of n have probability alpha, rounded down; 0 if k = 0.
    Scalars give a float, arrays an array.

    Needs: n independent draws, n fixed beforehand; the class counted was fixed before they were drawn.
    Source: Clopper & Pearson (1934), as used by Cohen et al. (2019), Sec. 3.2.2.
    """
    hits, draws, alphas, shape = flat(k, n, alpha)
    some = hits > 0
    limit = np.zeros_like(hits)
    p = _where_at_least(hits[some], draws[some], alphas[some])
    limit[some] = p - _slack(p, draws[some])
    return shaped(limit, shape)


@overload
def upper(k: int, n: int, alpha: float) -> float: ...
@overload
def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any: ...
def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any:
    """Upper confidence limit of a proportion: P[p > upper] <= alpha, whatever p is.

    It is the p at which k or fewer votes of n have probability alpha, rounded up; 1 if k = n.
    Scalars give a float, arrays an array.

    Needs: n independent draws, n fixed beforehand; the class counted was fixed before they were drawn, or k is the
    largest count of several classes and p the largest of their proportions (the bound rises with k).
    Source: Clopper & Pearson (1934).
    """
    hits, draws, alphas, shape = flat(k, n, alpha)
    short = hits < draws
    limit = np.ones_like(hits)
    p = _where_at_most(hits[short], draws[short], alphas[short])
    limit[short] = np.minimum(1.0, p + _slack(p, draws[short]))
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
    tail = betainc(most, votes[0] - most + 1, 0.5) * (1 + _relative_error(votes[0]))
    return float(min(1.0, max(_TINY, 2 * tail)))


def fewest_draws(alpha: float) -> int:
    """Smallest n with lower(n, n, alpha) > 1/2: with fewer draws the one-sided rule can only abstain."""
    return next(n for n in count(1) if lower(n, n, alpha) > 0.5)


def fewest_draws_to_predict(alpha: float) -> int:
    """Smallest n with 2 * (1/2)^n <= alpha: with fewer votes the two-sided test can never reject."""
    level(alpha)
    return next(n for n in count(1) if 2 * 0.5**n <= alpha)


def _where_at_least(k: Floats, n: Floats, alpha: Floats) -> Floats:
    """The p at which P[K >= k] = alpha, for k >= 1."""
    p: Floats = betaincinv(k, n - k + 1, alpha)
    likely = alpha > 0.5  # 1 - alpha is then exact, and the other tail is the one kept accurate
    p[likely] = _where_at_most(k[likely] - 1, n[likely], 1 - alpha[likely])
    every = k == n
    p[every] = alpha[every] ** (1 / n[every])
    return p


def _where_at_most(k: Floats, n: Floats, alpha: Floats) -> Floats:
    """The p at which P[K <= k] = alpha, for k < n."""
    p: Floats = betainccinv(k + 1, n - k, alpha)
    # Boost takes powers of a rounded 1 - p here, so that p = 1e-7 comes with nine digits.
    coarse = (k < _FEW) & (alpha <= 0.5) & (p < 0.1)
    p[coarse] = _polished(p[coarse], k[coarse], n[coarse], alpha[coarse])
    none = k == 0
    p[none] = -np.expm1(np.log(alpha[none]) / n[none])
    return p


def _polished(p: Floats, k: Floats, n: Floats, alpha: Floats) -> Floats:
    """P after one Newton step towards log P[K <= k] = log alpha, the tail summed in powers of the odds of p."""
    term, total = np.ones_like(p), np.ones_like(p)
    for j in range(1, int(k.max(initial=0)) + 1):
        term = np.where(j <= k, term * (n - j + 1) / j * p / (1 - p), term)
        total = np.where(j <= k, total + term, total)
    excess = n * np.log1p(-p) + np.log(total) - np.log(alpha)
    return p + excess * total / term * (1 - p) / (n - k)


def _slack(p: Floats, n: Floats) -> Floats:
    """How far a bound is moved outward: in log-odds by more than scipy's error, next to 1 by a few last digits."""
    return p * (8 * EPS + (1 - p) * _relative_error(n))


def _relative_error(n: Floats) -> Floats:
    """More than scipy's incomplete beta function and its inverses are wrong by, relative to p(1 - p).

    It is 1e-12 at n = 100, 5e-12 at 1e5, 5e-11 at 1e7. Less than a third of it was measured against Arb
    for n up to 1e9 and alpha from 1e-30 to 1 - 1e-6, with scipy 1.12 and 1.17. It must grow with sqrt(n):
    the inverses stop at half the bits of p, and a Newton step leaves their square over the width of K/n.
    """
    return EPS * (4000 + 64 * np.sqrt(n))
