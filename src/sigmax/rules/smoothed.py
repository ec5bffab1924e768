"""The constant-noise rule: what selection and estimation counts prove. No torch.

# k of n votes for class A; L, U bounds on the shares of A and of its rival
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, NamedTuple, Self, get_args

from sigmax import bounds, radius
from sigmax.bounds import table
from sigmax.errors import RequestError
from sigmax.radius.noise import Gaussian, Noise, check_sampled, described, noise_from
from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage, leading
from sigmax.rules.checks import check_classes, check_samples
from sigmax.rules.poll import Poll, first_look
from sigmax.rules.procedure import Answer, Counts, Procedure, Question, VoteRequest, votes
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling, optimistic_count, optimistic_pair
from sigmax.rules.selecting import leads_clearly, selecting

Bound = Literal["one-sided", "runner-up"]


class Estimate(NamedTuple):
    """What the votes of a look prove: the alpha that was paid, L, U where there is one, and the radius."""

    alpha: float
    lower: float | None
    upper: float | None
    radius: float


NOTHING = Estimate(0.0, None, None, 0.0)


@dataclass(frozen=True)
class SmoothedRule:
    """Cohen et al.'s CERTIFY and PREDICT for one noise distribution.

    `bound="one-sided"` pays all of alpha for L and uses U = 1 - L, as the papers do.
    `bound="runner-up"` pays half for L and half for U of the largest rival count, so that an input whose top
    class has under half of the votes can still be certified.
    `defers`: the base classifier is selective and may vote for no class; such votes are counted in a last column of
    their own, and an input without a majority for some class abstains.
    Source: Cohen et al. (2019), Sec. 3.2; runner-up: the rival is at most the largest count, U is monotone.
    """

    noise: Noise
    classes: int
    bound: Bound = "one-sided"
    defers: bool = False

    def __post_init__(self) -> None:
        check_sampled(self.noise)
        object.__setattr__(self, "classes", check_classes(self.classes))
        if self.bound not in get_args(Bound):
            raise RequestError(f"bound must be one of {', '.join(get_args(Bound))}; got {self.bound!r}")
        if not isinstance(self.defers, bool):
            raise RequestError(f"defers must be true or false; got {self.defers!r}")
        if self.defers and self.bound != "one-sided":
            raise RequestError("a selective model is held to a majority of the votes; use bound='one-sided' with it")

    @classmethod
    def gaussian(cls, sigma: float, classes: int, *, grid: int | None = None, **options: Any) -> Self:
        """The rule for Gaussian noise of standard deviation sigma."""
        return cls(Gaussian(sigma, grid), classes, **options)

    @property
    def sigma(self) -> float:
        """The level of its noise."""
        return self.noise.sigma

    @property
    def columns(self) -> int:
        """How many outcomes a vote can have: the classes, and one more where the base classifier may defer."""
        return self.classes + self.defers

    def request(self, role: Role, n: int, then: VoteRequest | None = None) -> VoteRequest:
        """The request for n votes in a role; `then`: what is likely to be asked after it."""
        return VoteRequest("", role, self.columns, self.noise, n, then=then)

    def top(self, counts: Counts) -> int:
        """The class with the most votes; a vote to defer is for none."""
        own = counts[: self.classes]
        return own.index(max(own))

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """n0 samples pick the class; up to n *other* samples bound its share; abstain unless a radius is proved."""
        budget = bounds.Budget(alpha)
        then = first_look(self.request(Role.ESTIMATION, n), sampling.schedule(n, alpha))
        ask = self.request(Role.SELECTION, n0, then)
        picks = yield from selecting(ask, sampling, leads_clearly(self.classes))
        top, selection = self.top(picks.counts), picks.stage
        if self._of_no_use(top, picks.counts, n, alpha, sampling):
            return self._unsampled(selection, alpha)
        paid = budget.spend(alpha, on=Role.ESTIMATION)
        estimation = yield from self.estimating(top, n=n, alpha=paid, sampling=sampling)
        outcome = self._outcome(top, estimation, sampling, n)
        certified = outcome is Outcome.CERTIFIED
        return Certificate(
            predicted=top if certified else None,
            radius=estimation.radius or 0.0,
            outcome=outcome,
            alpha=alpha,
            stages=(selection, estimation),
            ledger=budget.ledger,
            answered_by="",
            limited_by=estimation.name,
        )

    def _of_no_use(self, top: int, picks: Counts, n: int, alpha: float, sampling: Sampling) -> bool:
        """Whether the selection samples, which prove nothing, already say that no radius will be of use."""
        if not sampling.wants(top):
            return True
        if not sampling.floor:
            return False
        best = ceil(n * table.upper(picks[top], sum(picks), sampling.futility))
        possible = self.reach(*self._bounds(best, 0, n, sampling.last_level(n, alpha)))
        return sampling.enough(0.0, possible, self.sigma)

    def _unsampled(self, selection: Stage, alpha: float) -> Certificate:
        ledger = (bounds.Spent(Role.ESTIMATION, alpha),)
        stop = Outcome.FUTILITY_STOP
        return Certificate(None, 0.0, stop, alpha, (selection,), ledger, answered_by="", limited_by=selection.name)

    def estimating(
        self, top: int, *, n: int, alpha: float, sampling: Sampling = FIXED
    ) -> Generator[Question, Answer, Stage]:
        """Votes on `top`, which was fixed before them, look by look until what is asked is known.

        The stage holds the bounds of the look that proved most: those of all looks hold together (see `sampling`).
        """
        poll = Poll(self.request(Role.ESTIMATION, n), sampling.schedule(n, alpha))
        best = NOTHING
        while not poll.exhausted:
            yield from poll.more()
            now = self.estimate(top, poll.counts, poll.level)
            best = now if now.radius >= best.radius else best
            if sampling.enough(best.radius, self._possible(top, poll, sampling.futility), self.sigma):
                break
        return Stage("", Role.ESTIMATION, self.sigma, poll.counts, poll.cast, *best, looks=poll.recorded)

    def estimate(self, top: int, counts: Counts, alpha: float) -> Estimate:
        """The bounds and the radius that votes cast after `top` was fixed prove for it; none at alpha = 0."""
        if not alpha:
            return NOTHING
        lower, upper = self._bounds(counts[top], self._rival_votes(top, counts), sum(counts), alpha)
        return Estimate(alpha, lower, upper, self.reach(lower, upper))

    def _bounds(self, k: int, rival: int, n: int, alpha: float) -> tuple[float, float | None]:
        if self.bound == "one-sided":
            return table.lower(k, n, alpha), None
        return table.lower(k, n, alpha / 2), table.upper(rival, n, alpha / 2)

    def _possible(self, top: int, poll: Poll, futility: float) -> float:
        """The radius that all samples together may plausibly prove, seeing those so far; 0 once there are no more."""
        if poll.exhausted:
            return 0.0
        n, level = poll.schedule[-1]
        if self.bound == "one-sided":
            best = optimistic_count(poll.counts[top], poll.cast, n, futility)
            return self.reach(*self._bounds(best, 0, n, level))
        counts = poll.counts
        best, rival = optimistic_pair(counts[top], self._rival_votes(top, counts), sum(counts), n, futility)
        return self.reach(*self._bounds(best, rival, n, level))

    @property
    def norm(self) -> str:
        """That of its noise."""
        return self.noise.norm

    @property
    def is_random(self) -> bool:
        """Its bounds may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """Its one sigma."""
        return self.sigma

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """Abstain unless the two-sided binomial test of the two leading counts rejects a tie.

        A selective base classifier is held to a majority: its leading count is tested against all other votes. A
        class without one is returned with probability at most alpha: of shares that sum to at most 1 and are at most
        1/2 each, the chances to pass the one-sided test sum to at most those of two shares of 1/2.
        """
        counts = yield from votes(self.request(Role.PREDICTION, n))
        first, second = leading(counts[: self.classes])
        rival = sum(counts) - counts[first] if self.defers else counts[second]
        p_value = bounds.two_sided_p_value(max(counts[first], rival), counts[first] + rival)
        shown = p_value <= alpha and counts[first] > rival
        outcome = Outcome.PREDICTED if shown else Outcome.NO_MAJORITY if counts[first] < rival else Outcome.TOO_CLOSE
        return Prediction(
            predicted=first if shown else None,
            p_value=p_value if counts[first] > rival else 1.0,
            outcome=outcome,
            alpha=alpha,
            stages=(Stage("", Role.PREDICTION, self.sigma, counts, sum(counts), alpha),),
            ledger=(bounds.Spent(Role.PREDICTION, alpha),),
        )

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous samples would certify: fewer can only ever abstain."""
        check_samples(alpha, n0=n0, n=n)
        level = sampling.last_level(n, alpha)
        fewest = bounds.fewest_samples(level if self.bound == "one-sided" else level / 2)
        if n < fewest:
            raise RequestError(
                f"n={n} samples can never certify at alpha={alpha} with the {self.bound} bound, "
                f"even if all agree; use n >= {fewest} or a larger alpha"
            )

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous samples would predict."""
        check_samples(alpha, n=n)
        fewest = bounds.fewest_samples_to_predict(alpha)
        if n < fewest:
            raise RequestError(
                f"n={n} samples can never predict at alpha={alpha} (the smallest p-value is {2 * 0.5**n:.3g}); "
                f"use n >= {fewest} or a larger alpha"
            )

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What n unanimous samples prove."""
        return self.reach(*self._bounds(n, 0, n, sampling.last_level(n, alpha)))

    def reach(self, lower: float, upper: float | None) -> float:
        """The radius that bounds prove: the theorem, which a scheme with other noise exchanges for its own."""
        return radius.smoothed(self.noise, lower, upper)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        rest = {"classes": self.classes, "bound": self.bound, "defers": self.defers}
        return {"scheme": "smoothed", **described(self.noise), **rest}

    def _rival_votes(self, top: int, counts: Counts) -> int:
        return 0 if self.bound == "one-sided" else max(counts[:top] + counts[top + 1 :])

    def _outcome(self, top: int, estimation: Stage, sampling: Sampling, n: int) -> Outcome:
        counts = estimation.counts
        if estimation.radius:
            return Outcome.CERTIFIED
        stopped = estimation.n < n
        if stopped and sampling.targets:
            return Outcome.FUTILITY_STOP
        if self.bound == "one-sided" and 2 * max(counts[: self.classes]) <= sum(counts):
            return Outcome.NO_MAJORITY
        if counts[top] < max(counts):
            return Outcome.SELECTION_MISSED
        return Outcome.FUTILITY_STOP if stopped else Outcome.TOO_CLOSE


register(
    Entry(
        "smoothed",
        summary="one network under one noise level (Cohen et al. 2019)",
        fields=("noise", "classes", "bound", "defers"),
        optional=("sigma", "scale", "grid"),  # the level of the noise, by its name
        from_dict=lambda plain, part: SmoothedRule(
            noise_from(plain), plain["classes"], plain["bound"], plain["defers"]
        ),
    )
)
