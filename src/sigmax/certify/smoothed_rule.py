"""The constant-noise rule: what selection and estimation counts prove. No torch.

# k of n votes for class A; L, U bounds on the shares of A and of its rival; sigma noise
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from sigmax import bounds, radius
from sigmax.bounds import table
from sigmax.certify.checks import check_draws, is_number, is_whole
from sigmax.certify.procedure import Answer, Ask, Counts, Procedure, Question, votes
from sigmax.certify.sampling import FIXED, Poll, Sampling, hopeful
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Outcome, Prediction, Stage, leading

LEAST_SIGMA = 1e-30  # beyond it and its inverse 32-bit floats end

Bound = Literal["one-sided", "runner-up"]


@dataclass(frozen=True)
class SmoothedRule:
    """Cohen et al.'s CERTIFY and PREDICT for one noise level.

    `bound="one-sided"` pays all of alpha for L and uses U = 1 - L, as the papers do.
    `bound="runner-up"` pays half for L and half for U of the largest rival count, so that an input whose top
    class has under half of the votes can still be certified.
    Source: Cohen et al. (2019), Sec. 3.2; runner-up: the rival is at most the largest count, U is monotone.
    """

    sigma: float
    classes: int
    bound: Bound = "one-sided"

    def __post_init__(self) -> None:
        if not (is_number(self.sigma) and LEAST_SIGMA < self.sigma < 1 / LEAST_SIGMA):
            raise RequestError(
                f"sigma must be a positive number (noise in pixel units, [0, 1]); got {self.sigma!r}"
            )
        if not is_whole(self.classes) or self.classes < 2:
            raise RequestError(f"classes must be a whole number of at least 2; got {self.classes!r}")
        if self.bound not in get_args(Bound):
            raise RequestError(f"bound must be one of {', '.join(get_args(Bound))}; got {self.bound!r}")
        object.__setattr__(self, "sigma", float(self.sigma))  # numpy's numbers would not survive a file
        object.__setattr__(self, "classes", int(self.classes))

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """n0 draws pick the class; up to n *other* draws bound its share; abstain unless a radius is proved."""
        budget = bounds.Budget(alpha)
        picks = yield from votes(Ask("base", "selection", self.classes, self.sigma, n0))
        top, _ = leading(picks)
        selection = Stage("selection", self.sigma, picks, sum(picks))
        granted = budget.spend(alpha, on="estimation")
        estimation = yield from self.estimating(top, n=n, alpha=granted, sampling=sampling)
        outcome = self._outcome(top, estimation, sampling, n)
        certified = outcome is Outcome.CERTIFIED
        return Certificate(
            predicted=top if certified else None,
            radius=estimation.radius or 0.0,
            outcome=outcome,
            alpha=alpha,
            stages=(selection, estimation),
            ledger=budget.ledger,
        )

    def estimating(
        self, top: int, *, n: int, alpha: float, sampling: Sampling = FIXED
    ) -> Generator[Question, Answer, Stage]:
        """Votes on `top`, which was fixed before them, look by look until what is asked is known.

        The stage holds the bounds of the look that proved most: those of all looks hold together (see `sampling`).
        """
        poll = Poll(Ask("base", "estimation", self.classes, self.sigma, n), sampling.schedule(n, alpha))
        best, proved = Stage("estimation", self.sigma, poll.counts, 0), 0.0
        while not poll.exhausted:
            yield from poll.more()
            now = self.estimate(top, poll.counts, poll.level)
            if (now.radius or 0.0) >= proved:
                best, proved = now, now.radius or 0.0
            if sampling.enough(proved, self._possible(top, poll, sampling.doubt), self.sigma):
                break
        return replace(best, counts=poll.counts, n=sum(poll.counts), looks=poll.recorded)

    def estimate(self, top: int, counts: Counts, alpha: float) -> Stage:
        """The bounds and the radius that votes drawn after `top` was fixed prove for it; none at alpha = 0."""
        n = sum(counts)
        if not alpha:
            return Stage("estimation", self.sigma, counts, n, radius=0.0)
        lower, upper = self._bounds(counts[top], self._rival_votes(top, counts), n, alpha)
        return Stage("estimation", self.sigma, counts, n, alpha, lower, upper, self.reach(lower, upper))

    def _bounds(self, k: int, rival: int, n: int, alpha: float) -> tuple[float, float | None]:
        if self.bound == "one-sided":
            return table.lower(k, n, alpha), None
        return table.lower(k, n, alpha / 2), table.upper(rival, n, alpha / 2)

    def _possible(self, top: int, poll: Poll, doubt: float) -> float:
        """The radius that all draws together may plausibly prove, seeing those so far; 0 once there are no more."""
        if poll.exhausted:
            return 0.0
        n, level = poll.schedule[-1]
        best = hopeful(poll.counts, top, n, doubt)
        return self.reach(*self._bounds(best[top], self._rival_votes(top, best), n, level))

    @property
    def pays(self) -> bool:
        """Its bounds may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """Its one sigma."""
        return self.sigma

    @property
    def noise(self) -> float:
        """The sigma a radius may count on: noise is scaled by the 32-bit sigma, which may be a bit less."""
        return min(self.sigma, float(np.float32(self.sigma)))

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """Abstain unless the two-sided binomial test of the two leading counts rejects a tie."""
        counts = yield from votes(Ask("base", "prediction", self.classes, self.sigma, n))
        first, second = leading(counts)
        p_value = bounds.two_sided_p_value(counts[first], counts[first] + counts[second])
        shown = p_value <= alpha
        return Prediction(
            predicted=first if shown else None,
            p_value=p_value,
            outcome=Outcome.PREDICTED if shown else Outcome.TOO_CLOSE,
            alpha=alpha,
            stages=(Stage("prediction", self.sigma, counts, sum(counts), alpha),),
            ledger=(bounds.Spent("prediction", alpha),),
        )

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous draws would certify: fewer can only ever abstain."""
        check_draws(alpha, n0=n0, n=n)
        level = sampling.last_level(n, alpha)
        fewest = bounds.fewest_draws(level if self.bound == "one-sided" else level / 2)
        if n < fewest:
            raise RequestError(
                f"n={n} draws can never certify at alpha={alpha} with the {self.bound} bound, "
                f"even if all agree; use n >= {fewest} or a larger alpha"
            )

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous draws would predict."""
        check_draws(alpha, n=n)
        fewest = bounds.fewest_draws_to_predict(alpha)
        if n < fewest:
            raise RequestError(
                f"n={n} draws can never predict at alpha={alpha} (the smallest p-value is {2 * 0.5**n:.3g}); "
                f"use n >= {fewest} or a larger alpha"
            )

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What n unanimous draws prove."""
        return self.reach(*self._bounds(n, 0, n, sampling.last_level(n, alpha)))

    def reach(self, lower: float, upper: float | None) -> float:
        """The radius that bounds prove: the theorem, which a scheme with other noise exchanges for its own."""
        return radius.gaussian(self.noise, lower, upper)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        return {"scheme": "smoothed", "sigma": self.sigma, "classes": self.classes, "bound": self.bound}

    def _rival_votes(self, top: int, counts: Counts) -> int:
        return max(count for c, count in enumerate(counts) if c != top)

    def _outcome(self, top: int, estimation: Stage, sampling: Sampling, n: int) -> Outcome:
        counts = estimation.counts
        if estimation.radius:
            return Outcome.CERTIFIED
        stopped = estimation.n < n
        if stopped and sampling.targets:
            return Outcome.GIVEN_UP
        if self.bound == "one-sided" and 2 * max(counts) <= sum(counts):
            return Outcome.NO_MAJORITY
        if counts[top] < max(counts):
            return Outcome.SELECTION_MISSED
        return Outcome.GIVEN_UP if stopped else Outcome.TOO_CLOSE
