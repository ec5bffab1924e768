"""How far a cascade would certify held-out images, estimated from few samples for any confidence thresholds.

# k of d votes of the samples here; n samples of a certificate

A plug-in estimate from d samples, far fewer than n. k of d votes say little of a probability near 1, where large radii
are decided: d of d would be n of n if k / d were taken. So each image gets a probability that k of d leaves possible,
Beta(k + 1/10, d - k + 1/10) at a random place of its own, and that probability is put to the bounds of n samples.
It only chooses: every certificate rests on its own votes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sigmax import bounds, radius
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.train.calibrate.answers import Answers, Certain

PRIOR = 0.1  # votes for and against that every probability begins with: most are near 0 or 1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """How far a cascade would certify the true class of each image, about, for any confidence thresholds."""

    rule: CascadeRule
    answers: tuple[Answers | Certain, ...]  # of the levels, then of the last, which may be deterministic
    labels: Ints
    n: int = field(kw_only=True)
    alpha: float = field(kw_only=True)

    def __post_init__(self) -> None:
        for name in ("_level", "_alone"):  # the search asks again and again
            object.__setattr__(self, name, cache(getattr(self, name)))

    def accuracy(self, confidence: Sequence[float], radii: Sequence[float]) -> Floats:
        """Certified accuracy in % at each of the radii."""
        return share_within(self.radii(confidence), radii)

    def radii(self, confidence: Sequence[float]) -> Floats:
        """Of each image: what `radius.cascade` makes of the bounds that the levels would have."""
        levels = [self._level(j, c) for j, c in enumerate(confidence)]
        last = self._alone(len(self.rule.levels), self.rule.alpha_split(self.alpha)[-1])
        found: Floats = radius.cascade_of_radii(levels, last)
        return found

    def alone(self, radii: Sequence[float]) -> Floats:
        """(networks, radii): the same of each by itself, as constant noise with all of alpha or as it certifies."""
        return np.stack([share_within(self._alone(j, self.alpha), radii) for j in range(len(self.answers))])

    def envelope(self, radii: Sequence[float]) -> Floats:
        """The best of them at each of the radii, with another noise at every radius: no system."""
        found: Floats = self.alone(radii).max(axis=0)
        return found

    def _level(self, j: int, confidence: float) -> tuple[Floats, Floats]:
        """Answer and exclusion radii of a level: half of its alpha is for the true class, half for its rivals."""
        level, share = self.rule.level(j), self.rule.alpha_split(self.alpha)[j] / 2
        own, rivals = self._votes(j, confidence)
        lower = bounds.lower(self._of_n(own, j, 0), self.n, share)
        upper = bounds.upper(self._of_n(rivals, j, 1), self.n, share)
        return _each(level.answers, lower), _each(level.excludes, upper)

    def _alone(self, j: int, alpha: float) -> Floats:
        """How far a network that never defers certifies each image as constant noise; the last by its own bound."""
        known = self.answers[j]
        if isinstance(known, Certain):
            return known.reached(self.labels)
        rule = self.rule.levels[j] if j < len(self.rule.levels) else self.rule.last
        assert isinstance(rule, SmoothedRule)
        share = alpha / (1 if rule.bound == "one-sided" else 2)
        own, rivals = self._votes(j, 0.0)
        lower = bounds.lower(self._of_n(own, j, 0), self.n, share)
        if rule.bound == "one-sided":
            reached = _each(lambda low: rule.reach(low, None), lower)
        else:
            upper = bounds.upper(self._of_n(rivals, j, 0, rival=True), self.n, share)
            reached = _each(rule.reach, lower, upper)
        return np.where(own > rivals, reached, 0.0)

    def _votes(self, place: int, confidence: float) -> tuple[Ints, Ints]:
        """Votes for the true class of each image, and for the rival with the most."""
        answers, every = self.answers[place], np.arange(len(self.labels))
        assert isinstance(answers, Answers)
        counts = answers.counts(self.rule.classes, confidence)
        own = counts[every, self.labels]
        counts[every, self.labels] = 0
        return own, counts.max(axis=1)

    def _of_n(self, votes: Ints, network: int, of: int, *, rival: bool = False) -> Ints:
        """What `votes` of d may become of n; `rival`: at 1 - the place, so that of two classes they are one."""
        answers = self.answers[network]
        assert isinstance(answers, Answers)
        samples = answers.top.shape[1]
        place = np.random.SFC64([network, of]).random_raw(len(votes)).astype(np.float64) / 2**64
        place = np.clip(1 - place if rival else place, 1e-3, 1 - 1e-3)
        share = betaincinv(votes + PRIOR, samples - votes + PRIOR, place)
        found: Ints = np.round(share * self.n).astype(np.int64)
        return found


def share_within(reached: Floats, radii: Sequence[float]) -> Floats:
    """The share in % of images that are certified at least as far as each of the radii, and beyond 0."""
    found: Floats = 100 * ((reached[:, None] >= np.asarray(radii)) & (reached[:, None] > 0)).mean(axis=0)
    return found


def _each(radius_of: Callable[..., float], *limits: Floats) -> Floats:
    """A radius from the bounds of each image, computed once for images of the same bounds."""
    rows, place = np.unique(np.stack(limits), axis=1, return_inverse=True)
    found: Floats = np.array([radius_of(*row) for row in rows.T.tolist()])[place.reshape(-1)]
    return found
