"""The rule of a cascade of scales: which is in charge, and how alpha is shared between its bounds. No torch."""

# scale 0 has the largest sigma; t_j threshold; A_j class that scale j's selection draws picked; L_j <= p_A of A_j;
# U_j >= p_c for every class c but the one claimed

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, Literal, NamedTuple, get_args

from sigmax import bounds, radius
from sigmax.bounds import Budget, Spent
from sigmax.certify import multiscale_predicting
from sigmax.certify.checks import check_draws, is_number
from sigmax.certify.procedure import Answer, Ask, Procedure, Question, prefixed, votes
from sigmax.certify.sampling import FIXED, Sampling
from sigmax.certify.scale import Scale, Tally, scale_name
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Outcome, Prediction, Stage, leading

Shares = Literal["sound", "released"]


class Grant(NamedTuple):
    """What the bounds of one scale may spend: L where it names a class, U where it is passed (0 at the last)."""

    naming: float
    passing: float


class Visit(NamedTuple):
    """A scale that was asked."""

    scale: Scale
    selection: Stage
    top: int
    tally: Tally


@dataclass(frozen=True)
class MultiscaleRule:
    """The first scale, from the largest sigma on, at which some class has more than its threshold names the class.

    `budget="sound"`: K scales have 2K - 1 bounds that may be used, and each gets alpha / (2K - 1).
    Sound at alpha: given the draws of all other scales, which class U_j leaves out does not depend on the draws of
    scale j, so each bound is wrong with probability at most its share; if all hold, `radius.cascade` applies.
    `budget="released"` reproduces the authors' code for comparison: at scale s (from 0) L_s and all U_j get
    alpha / (s + 1), which sums to 2.67 alpha for three scales. Its radii are no certificates, and say so.
    An undecided scale does not end the cascade, as it does in the paper: a smaller one may name the only class that
    the undecided one could.
    Source: Jeong & Shin (2024), "Multi-scale diffusion denoised smoothing"; thresholds other than 1/2: `radius`.
    """

    sigmas: tuple[float, ...]  # strictly rising
    classes: int
    thresholds: tuple[float, ...] | float = 0.5  # one for all, or one for each sigma in their order
    budget: Shares = "sound"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", _rising(self.sigmas))
        object.__setattr__(self, "thresholds", _thresholds(self.thresholds, len(self.sigmas)))
        if self.budget not in get_args(Shares):
            raise RequestError(f"budget must be one of {', '.join(get_args(Shares))}; got {self.budget!r}")
        object.__setattr__(self, "classes", self.scales[0].classes)  # checked there, and made a plain number

    @property
    def scales(self) -> tuple[Scale, ...]:
        """In the order of the cascade: from the largest sigma to the smallest."""
        assert isinstance(self.thresholds, tuple)
        pairs = zip(reversed(self.sigmas), reversed(self.thresholds), strict=True)
        return tuple(Scale(sigma, self.classes, threshold=mark) for sigma, mark in pairs)

    @property
    def sound(self) -> bool:
        """Whether what it claims is a certificate."""
        return self.budget == "sound"

    @property
    def pays(self) -> bool:
        """Its bounds may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """That of its first scale."""
        return self.sigmas[-1]

    def grants(self, alpha: float) -> tuple[Grant, ...]:
        """What each scale may spend on its bounds; together at most alpha if the budget is the sound one."""
        last = len(self.sigmas) - 1
        if self.budget == "released":
            # A scale is passed at what the scale after it spends, or the ones after that, which spend less.
            return tuple(Grant(alpha / (s + 1), alpha / (s + 2) if s < last else 0.0) for s in range(last + 1))
        share = Budget(alpha).share(2 * last + 1)
        return tuple(Grant(share, share if s < last else 0.0) for s in range(last + 1))

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """Scale after scale, until one names a class or what is left can prove nothing."""
        grants = self.grants(alpha)
        visits: list[Visit] = []
        for s, (scale, grant) in enumerate(zip(self.scales, grants, strict=True)):
            visit = yield from self._visit(s, scale, grant, n0=n0, n=n, sampling=sampling)
            visits.append(visit)
            named = visit.tally.lower(visit.top, grant.naming) > scale.threshold
            if named or visit.tally.upper(visit.tally.leader, grant.passing) >= scale.threshold:
                break
        return self._concluded(visits, alpha, grants)

    def _visit(
        self, s: int, scale: Scale, grant: Grant, *, n0: int, n: int, sampling: Sampling
    ) -> Generator[Question, Answer, Visit]:
        base, stage = (prefixed(scale_name(s), inner) for inner in ("base", "selection"))
        picks = yield from votes(Ask(base, stage, self.classes, scale.sigma, n0))
        top, _ = leading(picks)
        ask = Ask(base, prefixed(scale_name(s), "estimation"), self.classes, scale.sigma, n)
        tally = Tally(scale, ask, n, sampling)
        yield from tally.drawing(top, *grant)
        return Visit(scale, Stage(stage, scale.sigma, picks, sum(picks)), top, tally)

    def _concluded(self, visits: Sequence[Visit], alpha: float, grants: Sequence[Grant]) -> Certificate:
        *passed, final = visits
        s = len(passed)
        naming = grants[s].naming
        lower = final.tally.lower(final.top, naming)
        named = lower > final.scale.threshold
        # In the released code a bound's level depends on the scale that the cascade ends at.
        level = {j: grants[j].passing if self.sound else naming for j in range(s)}
        claimed = final.top if named else None
        uppers = [
            v.tally.upper(v.tally.leader if claimed is None else claimed, level[j]) for j, v in enumerate(passed)
        ]
        proved = self._proved(visits, lower, uppers) if named else 0.0
        stages = [
            stage for j, v in enumerate(passed) for stage in _passed(v, uppers[j], grants[j].naming, level[j])
        ]
        estimation = final.tally.stage(alpha=naming, lower=lower, reach=final.scale.reach(lower, None))
        return Certificate(
            predicted=claimed if proved else None,
            radius=proved,
            outcome=self._outcome(visits, grants, named=named, proved=proved),
            alpha=alpha,
            stages=(*stages, final.selection, estimation),
            ledger=self._ledger(alpha),
        )

    def _proved(self, visits: Sequence[Visit], lower: float, uppers: Sequence[float]) -> float:
        scales = [visit.scale for visit in visits]
        marks = [scale.threshold for scale in scales]
        return radius.cascade([scale.noise for scale in scales], lower, uppers, thresholds=marks)

    def _outcome(self, visits: Sequence[Visit], grants: Sequence[Grant], *, named: bool, proved: float) -> Outcome:
        if proved:
            return Outcome.CERTIFIED if self.sound else Outcome.UNSOUND
        undecided = named or any(
            visit.tally.upper(None, grant.passing or grant.naming) >= visit.scale.threshold
            for visit, grant in zip(visits, grants, strict=False)
        )
        return Outcome.SCALE_UNDECIDED if undecided else Outcome.NO_SCALE

    def _ledger(self, alpha: float) -> tuple[Spent, ...]:
        """Every bound that may be used, used or not; none where they would not fit into alpha."""
        if not self.sound:
            return ()
        budget = Budget(alpha)
        for s, grant in enumerate(self.grants(alpha)):
            budget.spend(grant.naming, on=f"{scale_name(s)} names")
            if grant.passing:
                budget.spend(grant.passing, on=f"{scale_name(s)} is passed")
        return budget.ledger

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class that the cascade names at the input itself; always with the sound shares of alpha."""
        return multiscale_predicting.predicting(self.scales, n=n, alpha=alpha)

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous draws would certify at every scale."""
        check_draws(alpha, n0=n0, n=n)
        if sampling.kind == "adaptive" and not self.sound:
            raise RequestError(
                "budget='released' reproduces code that draws exactly n; use sampling='fixed' with it"
            )
        for s, (scale, grant) in enumerate(zip(self.scales, self.grants(alpha), strict=True)):
            level = sampling.last_level(n, grant.naming)
            if bounds.lower(n, n, level) <= scale.threshold:
                raise RequestError(
                    f"n={n} draws can never certify at {scale_name(s)} (sigma {scale.sigma:g}, threshold "
                    f"{scale.threshold:g}), which gets {grant.naming:.3g} of alpha={alpha:g}, even if all agree; "
                    f"use n >= {scale.fewest_draws(level)} or a larger alpha"
                )

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What unanimous draws prove, at the scale where that is most."""
        limit, furthest = inf, 0.0
        for scale, grant in zip(self.scales, self.grants(alpha), strict=True):
            lower = bounds.lower(n, n, sampling.last_level(n, grant.naming))
            furthest = max(furthest, min(limit, scale.reach(lower, None)))
            if grant.passing:
                limit = min(limit, scale.passing(bounds.upper(0, n, sampling.last_level(n, grant.passing))))
        return furthest

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous draws would predict at every scale."""
        check_draws(alpha, n=n)
        multiscale_predicting.check(self.scales, n=n, alpha=alpha)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data; sigmas and thresholds in rising order of sigma."""
        assert isinstance(self.thresholds, tuple)
        return {
            "scheme": "multiscale",
            "sigmas": list(self.sigmas),
            "classes": self.classes,
            "thresholds": list(self.thresholds),
            "budget": self.budget,
        }


def _passed(visit: Visit, upper: float, naming: float, passing: float) -> tuple[Stage, Stage]:
    """The stages of a scale that left the input to the smaller ones; the radius: how far it surely does."""
    tally = visit.tally
    lower, reach = tally.lower(visit.top, naming), visit.scale.passing(upper)
    return visit.selection, tally.stage(alpha=naming + passing, lower=lower, upper=upper, reach=reach)


def _rising(sigmas: object) -> tuple[float, ...]:
    listed = tuple(sigmas) if isinstance(sigmas, Sequence) and not isinstance(sigmas, str) else ()
    if len(listed) < 2 or not all(map(is_number, listed)) or any(a >= b for a, b in pairwise(listed)):
        raise RequestError(
            f"sigmas must be at least two noise levels, strictly rising, such as (0.25, 0.5, 1.0); got {sigmas!r}. "
            "For one level use Smoothed"
        )
    return tuple(map(float, listed))


def _thresholds(marks: Any, scales: int) -> tuple[float, ...]:
    several = isinstance(marks, Sequence) and not isinstance(marks, str)
    listed: tuple[Any, ...] = tuple(marks) if several else (marks,) * scales
    if len(listed) != scales or not all(is_number(mark) and 0.5 <= mark < 1 for mark in listed):
        raise RequestError(
            f"thresholds must be a share of votes from 0.5 to below 1, or one for each of the {scales} sigmas; "
            f"got {marks!r}. Below 0.5 two classes could be named at once"
        )
    return tuple(map(float, listed))
