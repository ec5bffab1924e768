"""A confidence bound that holds at every number of samples together, so that sampling may stop when it likes."""

# k of n votes so far; (a, b) the beta prior; u = log p; W(p) the wealth of a gambler who bets against p:
# a fair game if p is true, so that his wealth ever reaches 1/alpha with probability at most alpha

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from sigmax.bounds._checks import EPS, Floats, flat, shaped
from sigmax.errors import RequestError

Prior = tuple[float, float]

_ROUNDING = 16 * EPS  # of the terms of log W; less than 2 EPS was measured against Arb, for n up to 1e9
_LEAST_LOG = -690.0  # below it p itself would lose digits to underflow
_MOST_STEPS = 200  # ten are usual


@overload
def betting_lower(k: int, n: int, alpha: float, prior: Prior = ...) -> float: ...
@overload
def betting_lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, prior: Prior = ...) -> Any: ...
def betting_lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, prior: Prior = (0.5, 0.5)) -> Any:
    """Lower confidence limit valid at all n together: P[p < betting_lower at any n] <= alpha, whatever p is.

    It is the smallest p with log W(p) <= log(1/alpha), rounded down; 0 if k = 0.
    Scalars give a float, arrays an array.

    Needs: independent samples, looked at as often as one likes; class and prior (a, b) were fixed before them.
    A prior guessed from the selection samples is sound, one that has looked at these samples is not.
    Source: Ville (1939) for the game; Robbins (1970) for its beta mixture,
    log W(p) = log B(k+a, n-k+b) - log B(a, b) - k log p - (n-k) log(1-p).
    """
    hits, samples, alphas, shape = flat(k, n, alpha)
    some = hits > 0
    limit = np.zeros_like(hits)
    limit[some] = _wealth_crossing(hits[some], samples[some], alphas[some], _checked(prior))
    return shaped(limit, shape)


def _wealth_crossing(k: Floats, n: Floats, alpha: Floats, prior: Prior) -> Floats:
    """A p certainly at or below the smallest with log W(p) <= log(1/alpha), and next to it; for k >= 1.

    Left of k/n log W is convex and falling in u, so Newton's steps from the left near the root and never pass it.
    They solve for a log W made smaller by eight times the rounding measured in it; the answer is then checked.
    """
    known, size = _without_p(k, n, alpha, prior)
    base, shrink = known - _ROUNDING * size, 1 - _ROUNDING
    u = base / (shrink * k)  # left of the root, because -log(1-p) > 0 is left out
    for _ in range(_MOST_STEPS):
        excess = base + shrink * _loss(u, k, n)
        slope = shrink * (k + (n - k) * np.exp(u) / np.expm1(u))
        step = np.maximum(0.0, excess / slope)
        u = u + step
        if np.all(step <= EPS * -u):
            break
    loss = _loss(u, k, n)
    proved = (known + loss > _ROUNDING / 2 * (size + loss)) & (u > _LEAST_LOG)
    return np.where(proved, np.exp(u) * (1 - 4 * EPS), 0.0)


def _loss(u: Floats, k: Floats, n: Floats) -> Floats:
    """-k log p - (n-k) log(1-p), the part of log W that depends on p."""
    log_rest = np.where(u < -0.7, np.log1p(-np.exp(u)), np.log(-np.expm1(u)))  # each exact where the other is not
    return -k * u - (n - k) * log_rest


def _without_p(k: Floats, n: Floats, alpha: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """The part of log W(p) - log(1/alpha) without p in it, and the size of the terms that rounding acts on."""
    a, b = prior
    after, before = _log_beta(k + a, n - k + b), _log_beta(np.array(a), np.array(b))
    size = 64 - after + np.abs(before) - np.log(alpha) + np.log(n + a + b)
    return after - before + np.log(alpha), size


def _log_beta(x: Floats, y: Floats) -> Floats:
    """log B(x, y) by Stirling's formula and its remainder: lgamma would cancel eight digits at n = 1e7."""
    leading = -(x - 0.5) * np.log1p(y / x) - (y - 0.5) * np.log1p(x / y) - 0.5 * np.log((x + y) / (2 * np.pi))
    return leading + _remainder(x) + _remainder(y) - _remainder(x + y)


def _remainder(x: Floats) -> Floats:
    """lgamma(x) less Stirling's formula for it."""
    by_difference = gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * np.log(2 * np.pi)
    t = 1 / x**2
    by_series = (1 - t * (1 / 30 - t * (1 / 105 - t * (1 / 140 - t / 99)))) / (12 * x)
    return np.where(x < 32, by_difference, by_series)


def _checked(prior: Prior) -> Prior:
    a, b = prior
    if not (1e-6 <= a <= 1e6 and 1e-6 <= b <= 1e6):
        raise RequestError(
            f"expected a prior of two numbers from 1e-6 to 1e6, got {prior}; (0.5, 0.5) suits every proportion"
        )
    return float(a), float(b)
