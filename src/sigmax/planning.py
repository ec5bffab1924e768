"""How many draws a radius takes, before any is drawn; and the reverse. Needs no torch.

# r radius wanted; sigma noise; n draws, k of them for the class; p its true share
# q = Phi(r / sigma) the share that gives r exactly
# "k certifies": the one-sided Clopper-Pearson bound of k out of n at alpha gives at least r
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr, ndtri
from scipy.stats import binom

from sigmax import bounds, radius
from sigmax.errors import RequestError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_DRAWS = 10**9  # beyond it bounds are not computed, nor votes cast
_WINDOW = 2048  # losses looked at one by one


def radius_of(k: ArrayLike, *, sigma: ArrayLike, n: int, alpha: float) -> Any:
    """The radius that k of n votes prove at alpha, as `Smoothed` certifies it; 0 where they prove none."""
    return radius.gaussian(sigma, bounds.lower(k, n, alpha))


def least_votes(radii: ArrayLike, *, sigma: float, n: int, alpha: float) -> Any:
    """The fewest of n votes that certify each radius; n + 1 where not even all of them do.

    A radius of 0 asks for any radius at all: more than 0, since a class is certified by no less.
    """
    _check(sigma, alpha)
    wanted = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    if not np.all(np.isfinite(wanted) & (wanted >= 0)):
        raise RequestError(f"expected radii of at least 0, got {radii!r}")
    wanted = np.maximum(wanted, np.nextafter(0.0, 1.0))
    votes = _corrected(_guess(wanted / sigma, n, alpha), wanted, sigma, n, alpha)
    return votes if np.ndim(radii) else int(votes[0])


def _guess(steps: Floats, n: int, alpha: float) -> Whole:
    """k certifies if k or more votes of n have probability at most alpha at the share that gives r exactly."""
    guess = binom.isf(alpha, n, ndtr(steps)) + 1
    votes: Whole = np.clip(np.nan_to_num(guess, nan=n + 1), 1, n + 1).astype(np.int64)
    return votes


def _corrected(votes: Whole, wanted: Floats, sigma: float, n: int, alpha: float) -> Whole:
    """The guess moved until the radius as it is really computed, rounded down, agrees."""

    def certifies(k: Whole) -> NDArray[np.bool_]:
        reached = np.asarray(radius_of(np.clip(k, 0, n), sigma=sigma, n=n, alpha=alpha)) >= wanted
        return (k > n) | ((k > 0) & reached)

    while not np.all(enough := certifies(votes)):
        votes = np.where(enough, votes, votes + 1)
    while np.any(fewer := certifies(votes - 1)):
        votes = np.where(fewer, votes - 1, votes)
    return votes


@dataclass(frozen=True)
class DrawsNeeded:
    """What it takes to certify one radius on an input whose class has the true share p."""

    radius: float
    sigma: float
    p: float
    alpha: float
    chance: float
    draws: int | None  # fewest that certify with at least `chance`; None: out of reach, or over a billion
    unanimous: int | None  # fewest that could certify it if all agreed

    @property
    def least_share(self) -> float:
        """The share whose radius is r exactly: with p at or below it no number of draws will do."""
        return float(ndtr(self.radius / self.sigma))

    @property
    def missing_share(self) -> float:
        """What that share lacks of 1, exact where the share itself would be rounded to 1."""
        return float(ndtr(-self.radius / self.sigma))

    @property
    def limit(self) -> float:
        """The radius that more and more draws come near to, and never reach: sigma * Phi^-1(p), at least 0."""
        return max(0.0, self.sigma * float(ndtri(self.p)))

    @property
    def in_reach(self) -> bool:
        """Whether some number of draws certifies it."""
        return self.limit > self.radius

    @property
    def least_sigma(self) -> float | None:
        """The noise beyond which r comes in reach if p stays what it is, though more noise lowers p as a rule."""
        steps = float(ndtri(self.p))
        return self.radius / steps if steps > 0 else None


def draws_needed(
    radius: float, *, sigma: float, p: float, alpha: float = 1e-3, chance: float = 0.95
) -> DrawsNeeded:
    """The fewest draws that certify `radius` with probability `chance`, if the class has the true share `p`.

    Needs: the one-sided bound at alpha, and selection draws that pick the class. A dual system gives its experts a
    part of alpha each: ask with that part. Exact binomial probabilities. Votes are whole, so that a few draws more
    can do a little worse; where some thousand votes may be lost the number is enough, and the fewest but for that.
    """
    _check(sigma, alpha)
    _check_wanted(radius, p, chance)
    q = float(ndtr(radius / sigma))
    unanimous = _draws_allowing(np.array([0]), q, alpha)[0]
    told = (float(radius), float(sigma), float(p), float(alpha), float(chance))
    found = _fewest(told) if p > q else None
    return DrawsNeeded(*told, found, int(unanimous) if unanimous <= MOST_DRAWS else None)


def chance_to_certify(radii: ArrayLike, *, sigma: float, n: int, alpha: float, p: float) -> Any:
    """The probability that n draws certify each radius, if the class has the true share `p`."""
    votes = np.asarray(least_votes(radii, sigma=sigma, n=n, alpha=alpha))
    chances = np.asarray(binom.sf(votes - 1, n, p))
    return chances if chances.ndim else float(chances)


def _fewest(told: tuple[float, float, float, float, float]) -> int | None:
    """The number of lost votes allowed grows until the chance is large enough.

    With j lost votes allowed the chance is largest at the smallest n that allows them, so only those n matter.
    """
    r, sigma, p, alpha, chance = told
    q = float(ndtr(r / sigma))

    def enough(losses: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        n = _draws_allowing(losses, q, alpha)
        return n, (n <= MOST_DRAWS) & (bdtr(losses.astype(np.float64), n, 1 - p) >= chance)

    low, high = 0, _WINDOW
    while not enough(np.array([high]))[1][0]:
        low, high = high, 2 * high
        if _draws_allowing(np.array([low]), q, alpha)[0] > MOST_DRAWS:
            return None
    while high - low > _WINDOW:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(np.array([middle]))[1][0] else (middle, high)
    losses = np.arange(low, high + 1)
    n, holds = enough(losses)
    first = int(np.argmax(holds))
    return _proved(int(n[first]), int(losses[first]), r, sigma, alpha)


def _draws_allowing(losses: Whole, q: float, alpha: float) -> Whole:
    """The smallest n, up to one beyond the most, at which n - j votes certify: P[at most j lost] <= alpha at q."""
    low, high = losses.astype(np.int64), np.full(len(losses), MOST_DRAWS + 1, dtype=np.int64)
    while np.any(high - low > 1):  # it holds at high, or nothing does; at low, where all votes may be lost, never
        middle = (low + high) // 2
        holds = bdtr(losses.astype(np.float64), middle, 1 - q) <= alpha
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return high


def _proved(n: int, lost: int, r: float, sigma: float, alpha: float) -> int:
    """n, or a few more where the radius as it is really computed is a rounding short of r."""
    while n <= MOST_DRAWS and radius_of(n - lost, sigma=sigma, n=n, alpha=alpha) < max(r, np.nextafter(0.0, 1.0)):
        n += 1
    return n


def _check(sigma: float, alpha: float) -> None:
    if not (np.isfinite(sigma) and sigma > 0):
        raise RequestError(f"sigma must be a positive number (noise in pixel units, [0, 1]); got {sigma!r}")
    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha must lie strictly between 0 and 1 (the chance of a wrong certificate, 0.001 in the papers); "
            f"got {alpha!r}"
        )


def _check_wanted(r: float, p: float, chance: float) -> None:
    if not (np.isfinite(r) and r >= 0):
        raise RequestError(f"the radius must be a number of at least 0; got {r!r}")
    if not 0 <= p <= 1:
        raise RequestError(f"p must be a share from 0 to 1: of noisy copies in the class; got {p!r}")
    if not 0 < chance < 1:
        raise RequestError(f"chance must lie strictly between 0 and 1 (0.95 is usual); got {chance!r}")
