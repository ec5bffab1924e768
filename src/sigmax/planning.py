"""How many samples a radius takes, before any is sampled; and the reverse. Needs no torch.

# r radius wanted; sigma noise level (of uniform noise its scale); n samples, k of them for the class
# p = p_A, the class's true probability under noise
# q the p_A that gives r exactly: Phi(r / sigma); under uniform noise (1 + r / sigma) / 2
# "k certifies": the one-sided Clopper-Pearson bound of k out of n at alpha gives at least r
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr
from scipy.stats import binom

from sigmax import bounds, radius
from sigmax.errors import RequestError
from sigmax.radius.known_share import least_share, limit, most_missing
from sigmax.rules.checks import MOST_SAMPLES, check_samples

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

NOISES = ("gaussian", "uniform")
_WINDOW = 2048  # losses looked at one by one


def radius_of(k: ArrayLike, *, sigma: ArrayLike, n: int, alpha: float, noise: str = "gaussian") -> Any:
    """The radius that k of n votes prove at alpha, as `Smoothed` certifies it; 0 where they prove none."""
    return (radius.uniform if noise == "uniform" else radius.gaussian)(sigma, bounds.lower(k, n, alpha))


def least_votes(radii: ArrayLike, *, sigma: float, n: int, alpha: float, noise: str = "gaussian") -> Any:
    """The fewest of n votes that certify each radius; n + 1 where not even all of them do.

    A radius of 0 asks for any radius at all: more than 0, since a class is certified by no less.
    """
    _check(sigma, alpha, noise)
    wanted = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    if not np.all(np.isfinite(wanted) & (wanted >= 0)):
        raise RequestError(f"expected radii of at least 0, got {radii!r}")
    wanted = np.maximum(wanted, np.nextafter(0.0, 1.0))
    votes = _corrected(
        _guess(least_share(sigma, wanted, noise), n, alpha), wanted, sigma=sigma, n=n, alpha=alpha, noise=noise
    )
    return votes if np.ndim(radii) else int(votes[0])


def _guess(shares: Floats, n: int, alpha: float) -> Whole:
    """k certifies if k or more votes of n have probability at most alpha at the share that gives r exactly."""
    guess = binom.isf(alpha, n, shares) + 1
    votes: Whole = np.clip(np.nan_to_num(guess, nan=n + 1), 1, n + 1).astype(np.int64)
    return votes


def _corrected(votes: Whole, wanted: Floats, *, sigma: float, n: int, alpha: float, noise: str) -> Whole:
    """The guess moved until the radius as it is really computed, rounded down, agrees."""

    def certifies(k: Whole) -> NDArray[np.bool_]:
        reached = np.asarray(radius_of(np.clip(k, 0, n), sigma=sigma, n=n, alpha=alpha, noise=noise)) >= wanted
        return (k > n) | ((k > 0) & reached)

    while not np.all(enough := certifies(votes)):
        votes = np.where(enough, votes, votes + 1)
    while np.any(fewer := certifies(votes - 1)):
        votes = np.where(fewer, votes - 1, votes)
    return votes


@dataclass(frozen=True)
class SamplesNeeded:
    """What it takes to certify one radius on an input with p_A = p."""

    radius: float
    sigma: float
    p: float
    alpha: float
    chance: float
    samples: int | None  # fewest that certify with at least `chance`; None: out of reach, or over a billion
    unanimous: int | None  # fewest that could certify it if all agreed
    noise: str = "gaussian"

    @property
    def least_p(self) -> float:
        """The p_A whose radius is r exactly: with p at or below it no number of samples is enough."""
        return float(least_share(self.sigma, self.radius, self.noise))

    @property
    def missing_p(self) -> float:
        """1 - least_p, exact where least_p itself would be rounded to 1."""
        return float(most_missing(self.sigma, self.radius, self.noise))

    @property
    def limit(self) -> float:
        """The radius that the certified one approaches and never reaches; at least 0."""
        return float(limit(self.sigma, self.p, self.noise))

    @property
    def in_reach(self) -> bool:
        """Whether some number of samples certifies it."""
        return self.limit > self.radius

    @property
    def least_sigma(self) -> float | None:
        """The noise beyond which r comes in reach if p stays the same; more noise usually lowers p."""
        at_one = float(limit(1.0, self.p, self.noise))
        return self.radius / at_one if at_one > 0 else None


def samples_needed(
    radius: float, *, sigma: float, p: float, alpha: float = 1e-3, chance: float = 0.95, noise: str = "gaussian"
) -> SamplesNeeded:
    """The fewest samples that certify `radius` with probability `chance` where p_A is `p`.

    noise: "gaussian", or "uniform", whose scale is `sigma` and whose radii are in l1.

    Needs: the one-sided bound at alpha, and selection samples that pick the class. A dual system or cascade gives each
    part a share of alpha: ask with that share. Probabilities are exact binomial ones. Votes are whole numbers, so a
    few more samples can do slightly worse; where thousands of votes may be lost the result is sufficient, and minimal
    up to that effect.
    """
    _check(sigma, alpha, noise)
    _check_wanted(radius, p, chance)
    q = float(least_share(sigma, radius, noise))
    unanimous = _samples_allowing(np.array([0]), q, alpha)[0]
    asked = (float(radius), float(sigma), float(p), float(alpha), float(chance))
    found = _fewest(asked, noise) if p > q else None
    return SamplesNeeded(*asked, found, int(unanimous) if unanimous <= MOST_SAMPLES else None, noise)


def chance_to_certify(
    radii: ArrayLike, *, sigma: float, n: int, alpha: float, p: float, noise: str = "gaussian"
) -> Any:
    """The probability that n samples certify each radius where p_A is `p`."""
    votes = np.asarray(least_votes(radii, sigma=sigma, n=n, alpha=alpha, noise=noise))
    chances = np.asarray(binom.sf(votes - 1, n, p))
    return chances if chances.ndim else float(chances)


def _fewest(asked: tuple[float, float, float, float, float], noise: str) -> int | None:
    """The number of lost votes allowed grows until the chance is large enough.

    With j lost votes allowed the chance is largest at the smallest n that allows them, so only those n matter.
    """
    r, sigma, p, alpha, chance = asked
    q = float(least_share(sigma, r, noise))

    def enough(losses: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        n = _samples_allowing(losses, q, alpha)
        return n, (n <= MOST_SAMPLES) & (bdtr(losses.astype(np.float64), n, 1 - p) >= chance)

    low, high = 0, _WINDOW
    while not enough(np.array([high]))[1][0]:
        low, high = high, 2 * high
        if _samples_allowing(np.array([low]), q, alpha)[0] > MOST_SAMPLES:
            return None
    while high - low > _WINDOW:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(np.array([middle]))[1][0] else (middle, high)
    losses = np.arange(low, high + 1)
    n, holds = enough(losses)
    first = int(np.argmax(holds))
    return _proved(int(n[first]), int(losses[first]), r, sigma=sigma, alpha=alpha, noise=noise)


def _samples_allowing(losses: Whole, q: float, alpha: float) -> Whole:
    """The smallest n, up to one beyond the most, at which n - j votes certify: P[at most j lost] <= alpha at q."""
    low, high = losses.astype(np.int64), np.full(len(losses), MOST_SAMPLES + 1, dtype=np.int64)
    while np.any(high - low > 1):  # it holds at high, or nothing does; at low, where all votes may be lost, never
        middle = (low + high) // 2
        holds = bdtr(losses.astype(np.float64), middle, 1 - q) <= alpha
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return high


def _proved(n: int, lost: int, r: float, *, sigma: float, alpha: float, noise: str) -> int:
    """n, or a few more where the radius as it is really computed is a rounding short of r."""
    asked: dict[str, Any] = {"sigma": sigma, "alpha": alpha, "noise": noise}
    while n <= MOST_SAMPLES and radius_of(n - lost, n=n, **asked) < max(r, np.nextafter(0.0, 1.0)):
        n += 1
    return n


def _check(sigma: float, alpha: float, noise: str) -> None:
    if noise not in NOISES:
        raise RequestError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}")
    (radius.Uniform if noise == "uniform" else radius.Gaussian)(sigma)
    check_samples(alpha)


def _check_wanted(r: float, p: float, chance: float) -> None:
    if not (np.isfinite(r) and r >= 0):
        raise RequestError(f"the radius must be a number of at least 0; got {r!r}")
    if not 0 <= p <= 1:
        raise RequestError(f"p must be a probability from 0 to 1 (p_A, of the class under noise); got {p!r}")
    if not 0 < chance < 1:
        raise RequestError(f"chance must lie strictly between 0 and 1 (0.95 is usual); got {chance!r}")
