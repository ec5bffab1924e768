"""How likely a Gaussian vector lies in a ball, by sections: for centres that are far away, up to infinitely far."""

# X standard normal in R^(n+1), Z its part along the axis through the centre, V ~ chi2_n the squared rest;
# the ball is {Z - h/2 * (V + Z^2) >= t - h n/2}: centre at 1/h; a half-space Z >= t when h = 0; u = 2^-53
#
# Given V the ball is an interval of Z that begins at z = 2c / (1 + sqrt(1 - 2hc)), c = t + h/2 * (V - n), and ends
# beyond 1/h. With V = n e^y the density of y is d(y) ~ exp(-n/2 * (e^y - 1 - y)); the chance of the ball is the
# integral of f = d * Phi(-z) over y < Y, less at most Phi(-1/h) for the far end of the intervals, more by at most
# P[y > Y] * Phi(-z(Y)). Y is where sqrt(1 - 2hc) falls to about 1/2, or where d has died out if that comes first.
#
# The integral is a sum over equidistant nodes, Y half-way between two of them. Why its error is bounded: f is
# analytic for Re y < Y. On Im y = theta: |d| integrates to cos(theta)^(-n/2), and |Phi(-z)| <= exp(Im(z)^2 / 2)
# with |Im z| <= h V theta / (2 * 1/2), so |f| integrates to at most M = (1 - theta^2 (1/2 + h^2 V_max))^(-n/2).
# By the residue theorem sum and integral differ by at most 2M / (e^(2 pi theta / step) - 1), and by twice the
# integral of |f(Y + i tau)| / (1 + e^(2 pi tau / step)) over 0 < tau < theta. (Trefethen & Weideman, 2014,
# Theorem 5.1, with an end.) Both bounds are computed and charged, and the first twice: the weights are divided by
# their sum, not by the integral.

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from sigmax.radius._checks import Floats
from sigmax.radius.normal import EPS

_DEPTH = 75.0  # nodes whose weight is below e^-75 of the largest are left out
_ALIAS = 1e-26  # bound aimed at for the error of the sum
_LEAST_ROOT = 0.26  # of 1 - 2hc at Y: its root is above 1/2 with all roundings
# Relative errors: weights 1e-13 (an exponent below 75, to 5 ulp), Phi 3e-13 (measured against Arb, arguments
# above -12; below, Phi is nothing), a scalar product of at most 3000 terms 4e-13.
_RELATIVE = 1e-12


class Ball(NamedTuple):
    """What is asked about; see above."""

    n: int
    h: float
    t: float


class Nodes(NamedTuple):
    """Where a section is cut, rising in V, and what each weighs."""

    step: float
    ends: Floats  # V - n half a step beyond the nodes
    excess: Floats  # V - n at the nodes
    weights: Floats
    beyond: Floats  # weight of the nodes from this one on; 0 after the last
    y: Floats


class Strip(NamedTuple):
    """How far into the complex plane the integrand is followed, and the bound that gives."""

    step: float
    theta: float
    alias: float


def section_chances(n: int, h: float, t: float, error: float = 0.0) -> tuple[float, float]:
    """Lower bounds of the chances to lie inside and outside of the ball, each next to the exact one.

    Both are relative down to 1e-25. Needs: h exact to 2 u, t to `error`; 0 <= h <= 1/32 or so, h * sqrt(n) <= 6
    or so: beyond, the bounds hold but say little.
    """
    strip = _strip(n, h * h * _greatest(n))
    nodes = _nodes(n, strip.step)
    kept = len(nodes.excess)
    if h > 0:
        kept = int(np.searchsorted(nodes.ends, (1 - _LEAST_ROOT - 2 * h * t) / (h * h), "right"))
    half = (0.5 * h) * nodes.excess[:kept]
    c = half + t
    z = 2 * c / (1 + np.sqrt(1 - (2 * h) * c))
    # dz/dc is below 2; c is off by `error` and 10 u (|t| + |h/2 (V - n)|); root and quotient add 8 u |z|.
    off = (32 * EPS) * (abs(t) + np.abs(half)) + 2 * error
    weights = nodes.weights[:kept]
    inside = float(weights @ ndtr(-z - off)) * (1 - _RELATIVE)
    outside = float(weights @ ndtr(z - off) + nodes.beyond[kept]) * (1 - _RELATIVE)
    far, end = _charges(Ball(n, h, t), strip, nodes, kept)
    charge = 2 * strip.alias + end
    return max(0.0, inside - charge - far), max(0.0, outside - charge)


def _charges(ball: Ball, strip: Strip, nodes: Nodes, kept: int) -> tuple[float, float]:
    """The far ends of the intervals; the segment Re y = Y together with the ball beyond it."""
    n, h, t = ball
    if h == 0:
        return 0.0, 0.0
    if n == 0 and kept:  # one section: neither sum nor beyond
        return float(ndtr(-1 / h)), 0.0
    y = float(nodes.y[0] - strip.step / 2 if kept == 0 else nodes.y[kept - 1] + strip.step / 2)
    v = n * math.exp(y)
    square = max(0.0, 1 - 2 * h * (t + h / 2 * n * math.expm1(y)))
    mass = 0.0 if y <= 0 else -n / 2 * _gap(y)  # log of P[y' > y], by Chernoff's bound, and of the weight there
    beyond = math.exp(mass + float(log_ndtr((math.sqrt(square) - 1) / h)))
    if kept == 0:  # no sum, no segment
        return float(ndtr(-1 / h)), beyond + math.exp(-_DEPTH)
    real, imaginary = square + h * h * v * strip.theta**2 / 2, h * h * v * strip.theta
    root = math.sqrt((math.hypot(real, imaginary) + real) / 2)
    aside = imaginary / (2 * math.sqrt(square)) / h
    # |f| grows by the exponential of something quadratic in tau: less 2 pi tau / step, it is largest at an end.
    growth = v * strip.theta**2 / 4 + aside**2 / 2 - 2 * math.pi * strip.theta / strip.step
    height = min(700.0, mass + max(0.0, growth) + float(log_ndtr((root - 1) / h)))
    segment = math.exp(height) * 2 * strip.theta / strip.step
    return float(ndtr(-1 / h)), 1.01 * (beyond + segment)


@lru_cache(maxsize=256)
def _greatest(n: int) -> float:
    """V at which the density has died out, and half a step more: no step is above 1/2 or 0.8 / sqrt(n)."""
    high = math.sqrt(4 * _DEPTH / n) if n else 0.0  # e^y - 1 - y >= y^2 / 2
    for _ in range(60):  # Newton from above on a convex function stays above
        high -= (_gap(high) - 2 * _DEPTH / n) / math.expm1(high) if n else 0.0
    return n * math.exp(high + (min(0.25, 0.4 / math.sqrt(n)) if n else 0.0))


@lru_cache(maxsize=4096)
def _strip(n: int, stretch: float) -> Strip:
    """The coarsest step, of three binary digits, whose error bound is small enough; stretch = h^2 * V_max."""
    if n == 0:
        return Strip(1.0, 0.0, 0.0)
    curve = 0.5 + stretch
    aim = -math.log(_ALIAS) + 4
    step = _short(min(0.5, math.sqrt(2 * math.pi**2 / (aim * n * curve))))
    while True:
        theta = min(2 * math.pi / (step * n * curve), math.sqrt(0.7 / curve))
        growth = -n / 2 * math.log1p(-(theta**2) * curve)
        alias = 2.02 * math.exp(growth - 2 * math.pi * theta / step)
        if alias <= _ALIAS:
            return Strip(step, theta, alias)
        step = _short(step * 0.9)


def _short(step: float) -> float:
    """Rounded down to three binary digits: multiples of it by whole numbers are exact."""
    fraction, exponent = math.frexp(step)
    return math.ldexp(math.floor(fraction * 8), exponent - 3)


@lru_cache(maxsize=64)
def _nodes(n: int, step: float) -> Nodes:
    """Nodes for chi2_n at multiples of the step in y = log(V / n)."""
    if n == 0:
        one = np.ones(1)
        return Nodes(step, np.zeros(1), np.zeros(1), one, np.array([1.0, 0.0]), np.zeros(1))
    left = 2 * _DEPTH / n + 1 + 1.5 * math.sqrt(4 * _DEPTH / n)
    right = math.sqrt(4 * _DEPTH / n)
    y = step * np.arange(-math.ceil(left / step), math.ceil(right / step) + 1, dtype=np.float64)
    depth = n / 2 * np.array([_gap(float(each)) for each in y])
    y, depth = y[depth <= _DEPTH], depth[depth <= _DEPTH]
    raw = np.exp(-depth)
    weights = raw / math.fsum(raw)
    beyond = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    return Nodes(step, n * np.expm1(y + step / 2), n * np.expm1(y), weights, beyond, y)


def _gap(y: float) -> float:
    """e^y - 1 - y to a few ulp, by its series where the plain form would cancel."""
    if abs(y) > 0.5:
        return math.expm1(y) - y
    total, term = 0.0, y * y / 2
    for k in range(3, 24):
        total += term
        term *= y / k
    return total
