"""The classifier that is worst for two noise levels, and how likely it errs at the adversary."""

# sigma_0 = 1 at the input, s = sigma_1 / sigma_0 at the adversary, a their distance; P0 = N(0, I), P1 = N(a, s^2 I)
# rest = 1 - p_A, the chance under P0 left to other classes; e = |1 - s^2|; N dimension, n = N - 1; u = 2^-53
#
# By Neyman and Pearson no event of chance `rest` under P0 is likelier under P1 than B = {q1/q0 >= const}: a ball
# about the point at distance a/e from the input, beyond the adversary, if s < 1; if s > 1 the outside of one about
# the point as far on the other side.
# (Sukenik et al. 2022, Theorem 2.2.) Under P1, in units of s, it is a ball again, its centre s times as far.
#
# Why the result is above the exact one, all roundings included:
# * A floating-point centre belongs to a distance a* next to a. It is rounded so that a* >= a; the chance rises with
#   distance (Lemma F.4), so the bound for a* holds for a.
# * B need not have the chance `rest` exactly: any larger B of the family is as good a bound. B is searched until
#   a *lower* bound of its chance under P0 reaches `rest`; then one minus a lower bound of the chance of its
#   complement under P1 is returned.
# * Parameters under P1 are rounded to the side that makes B larger.

import math
from collections.abc import Callable

from scipy.special import ndtri

from sigmax.radius.elastic.ball_mixture import ball_chances
from sigmax.radius.elastic.ball_sections import section_chances
from sigmax.radius.normal import EPS

_NEAR = 32.0  # centres nearer than this, or than a quarter of sqrt(n/2), are the mixture's
_TIGHT = 2e-13  # how close to `rest` the search goes, in standard deviations
_FURTHEST = 38.0  # standard deviations a double can tell from certainty

Bound = Callable[[float], float]


def rival_above(distance: float, ratio: float, rest: float, dim: int) -> float:
    """The greatest chance, under P1, of an event that has the chance `rest` under P0; rounded up, at most 1.

    Needs: 0 <= distance, in units of sigma_0; 1e-4 <= ratio <= 1e4; all taken as exact.
    """
    if rest == 0:
        return 0.0
    score = float(ndtri(rest))
    if score >= 6 or distance - abs(score) >= _FURTHEST * max(ratio, 1.0):
        return 1.0  # what is left to A cannot be distinguished from nothing
    here, there = _bounds(distance, ratio, dim)
    wanted = score + 16 * EPS * (1 + abs(score))  # scores are rounded; with this, reaching it is reaching `rest`
    size = crossing(lambda q: _score(here(q)) - wanted, score, 1.0, _TIGHT)
    return 1.0 if size is None else min(1.0, 1.0 - there(size) + EPS)


def _bounds(distance: float, ratio: float, dim: int) -> tuple[Bound, Bound]:
    """Lower bounds of P0(B) and of 1 - P1(B) for B of a size q: about that at which P0(B) = Phi(q)."""
    e = abs(1 - ratio) * (1 + ratio)  # to 3 u
    nearer = min(1.0, ratio) * distance
    if nearer >= max(_NEAR, math.sqrt((dim - 1) / 2) / 4) * e:
        return _by_sections(distance, ratio, dim - 1, e)
    return _by_mixture(distance, ratio, dim, e)


def _by_sections(distance: float, s: float, n: int, e: float) -> tuple[Bound, Bound]:
    inside = s < 1
    h = e / distance * (1 - 4 * EPS) if e > 0 else 0.0
    moved = e / h if e > 0 else distance  # a*
    shift = h * e * n / 2 + moved * (1 + s * s) / 2
    scale = math.sqrt(1 + h * h * (n + 1) / 2)

    def threshold(q: float) -> float:
        return -h / 2 + (-q if inside else q) * scale

    def here(q: float) -> float:
        return section_chances(n, h, threshold(q))[0 if inside else 1]

    def there(q: float) -> float:
        t = threshold(q)
        # Z = a* + s Z': then Z' - h/(2s) (V' + Z'^2) >= (t - shift) / s^3 and the like; each term is good to 12 u.
        moved_t = (t - shift if inside else t + shift) / s**3
        return section_chances(n, h / s, moved_t, 8 * EPS * (abs(t) + shift) / s**3)[1 if inside else 0]

    return here, there


def _by_mixture(distance: float, s: float, dim: int, e: float) -> tuple[Bound, Bound]:
    inside = s < 1
    centre = distance / e * (1 + 4 * EPS)
    mean = dim + centre**2
    spread = 2 * (1 + centre**2 / mean) / (9 * mean)
    mu = centre**2 / 2
    # The ball's chance rises with its radius and falls with its distance. Under P0 the radius is exact.
    wide, narrow = 1 + 4 * EPS, 1 - 4 * EPS

    def half_square(q: float) -> float:  # of the ball's radius: the cube root is nearly normal (Abdel-Aty 1954)
        root = 1 - spread + math.sqrt(spread) * (q if inside else -q)
        return mean / 2 * max(root, 0.1 * math.exp(min(0.0, 10 * root - 1))) ** 3

    def here(q: float) -> float:
        within, beyond = ball_chances(dim, mu * (wide if inside else narrow), half_square(q))
        return within if inside else beyond

    def there(q: float) -> float:
        grown, near = (wide, narrow) if inside else (narrow, wide)
        within, beyond = ball_chances(dim, mu * s * s * near, half_square(q) / (s * s) * grown)
        return beyond if inside else within

    return here, there


def crossing(rising: Bound, start: float, slope: float, tight: float, steps: int = 80) -> float | None:
    """An x with 0 <= rising(x) <= tight, by secants kept between what was found too low and too high; or None.

    The value at x itself was seen to be in that range: nothing else about the function is trusted. Where the
    function jumps over the range the least x seen above it is taken.
    """
    aim = tight / 2
    low, high = -math.inf, math.inf
    x, before = start, None
    for _ in range(steps):
        value = rising(x)
        if 0 <= value <= tight:
            return x
        low, high = (x, high) if value < 0 else (low, x)
        if before is not None and before[1] != value:
            slope = (value - before[1]) / (x - before[0])
        before = x, value
        x = x - (value - aim) / slope if slope > 0 else math.nan
        if not low < x < high:
            x = _between(low, high, start)
            if not low < x < high:
                break
    return high if high < math.inf else None


def _between(low: float, high: float, start: float) -> float:
    if low == -math.inf:
        return high - max(1.0, abs(high - start)) * 2
    if high == math.inf:
        return low + max(1.0, abs(low - start)) * 2
    return (low + high) / 2


def _score(chance: float) -> float:
    return float(ndtri(chance)) if chance > 1e-300 else -_FURTHEST
