"""The constant-noise rule: what selection and estimation counts prove. No torch.

# k of n votes for class A; L, U bounds on the shares of A and of its rival; sigma noise
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sigmax import bounds, radius
from sigmax.certify.checks import check_draws, is_number, is_whole
from sigmax.certify.procedure import Ask, Counts, Procedure, votes
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

    def certifying(self, *, n0: int, n: int, alpha: float) -> Procedure[Certificate]:
        """n0 draws pick the class; n *other* draws bound its share; abstain unless a radius is proved."""
        budget = bounds.Budget(alpha)
        picks = yield from votes(Ask("base", "selection", self.classes, self.sigma, n0))
        top, _ = leading(picks)
        counts = yield from votes(Ask("base", "estimation", self.classes, self.sigma, n))
        selection = Stage("selection", self.sigma, picks, sum(picks))
        estimation = self.estimate(top, counts, budget.spend(alpha, on="estimation"))
        outcome = self._outcome(top, counts, estimation)
        certified = outcome is Outcome.CERTIFIED
        return Certificate(
            predicted=top if certified else None,
            radius=estimation.radius or 0.0,
            outcome=outcome,
            alpha=alpha,
            stages=(selection, estimation),
            ledger=budget.ledger,
        )

    def estimate(self, top: int, counts: Counts, alpha: float) -> Stage:
        """The bounds and the radius that votes drawn after `top` was fixed prove for it."""
        n = sum(counts)
        if self.bound == "one-sided":
            lower, upper = bounds.lower(counts[top], n, alpha), None
        else:
            lower = bounds.lower(counts[top], n, alpha / 2)
            upper = bounds.upper(self._rival_votes(top, counts), n, alpha / 2)
        proved = radius.gaussian(self.noise, lower, upper)
        return Stage("estimation", self.sigma, counts, n, alpha, lower, upper, proved)

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

    def check_certify(self, *, n0: int, n: int, alpha: float) -> None:
        """Raise unless n unanimous draws would certify: fewer can only ever abstain."""
        check_draws(alpha, n0=n0, n=n)
        fewest = bounds.fewest_draws(alpha if self.bound == "one-sided" else alpha / 2)
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

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        return {"scheme": "smoothed", "sigma": self.sigma, "classes": self.classes, "bound": self.bound}

    def _rival_votes(self, top: int, counts: Counts) -> int:
        return max(count for c, count in enumerate(counts) if c != top)

    def _outcome(self, top: int, counts: Counts, estimation: Stage) -> Outcome:
        if estimation.radius:
            return Outcome.CERTIFIED
        if self.bound == "one-sided" and 2 * max(counts) <= sum(counts):
            return Outcome.NO_MAJORITY
        if counts[top] < max(counts):
            return Outcome.SELECTION_MISSED
        return Outcome.TOO_CLOSE
