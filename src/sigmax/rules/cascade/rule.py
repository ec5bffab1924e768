"""The rule of a cascade: its levels in order, the certifier below them, and how alpha is split. No torch.

# level j answers class c where its share of votes is above t_j, else it defers to the next; the last is any certifier
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor, inf, log
from typing import Any

from sigmax import bounds
from sigmax.bounds import Budget, Spent, table
from sigmax.errors import RequestError
from sigmax.radius.cascade import check_threshold
from sigmax.rules.cascade import predicting
from sigmax.rules.cascade.level import Level, Payment, Tally
from sigmax.rules.cascade.parts import LAST, level_name, levels_tried
from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage
from sigmax.rules.checks import check_norms, check_samples, naming_part
from sigmax.rules.poll import first_look
from sigmax.rules.procedure import Procedure, Rule, within
from sigmax.rules.registry import Entry, Part, register
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.selecting import answers_clearly, selecting
from sigmax.rules.smoothed import SmoothedRule


@dataclass(frozen=True)
class CascadeRule:
    """The first level at which some class has more than the threshold's share of votes answers; else the last one.

    Alpha: half is the first level's (all of it where nothing below is random), the other half is what is below it's,
    and so on. Every bound that may be used pays for itself at every look (see `level`), so all of them hold together
    with probability at least 1 - alpha, and `radius.cascade` applies.
    An undecided level does not end the cascade: what is below may certify the only class that it could answer.
    Source: Jeong & Shin (2024), "Multi-scale diffusion denoised smoothing", for base classifiers that never defer.
    """

    levels: tuple[SmoothedRule, ...]
    last: Rule
    thresholds: tuple[float, ...] | float = 0.5  # one for all levels, or one for each

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        if not self.levels or not all(isinstance(level, SmoothedRule) for level in self.levels):
            raise RequestError("a cascade needs at least one level, each a Smoothed classifier, before its last")
        for j, level in enumerate(self.levels):
            if level.bound != "one-sided":
                raise RequestError(f"{level_name(j)} must use bound='one-sided': a cascade bounds the rivals itself")
        classes = [*(level.classes for level in self.levels), self.last.classes]
        if len(set(classes)) > 1:
            raise RequestError(f"levels and last must have the same classes; they have {', '.join(map(str, classes))}")
        check_norms({**{level_name(j): level for j, level in enumerate(self.levels)}, LAST: self.last})
        object.__setattr__(self, "thresholds", _thresholds(self.thresholds, len(self.levels)))

    @property
    def classes(self) -> int:
        """How many classes it has."""
        return self.last.classes

    @property
    def norm(self) -> str:
        """That of all its parts."""
        return self.last.norm

    @property
    def is_random(self) -> bool:
        """Its levels' bounds may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """The largest sigma of any level or of the last."""
        return max(*(level.sigma for level in self.levels), self.last.largest_noise)

    def level(self, j: int) -> Level:
        """Level j with its name and threshold."""
        assert isinstance(self.thresholds, tuple)
        return Level(level_name(j), self.levels[j], self.thresholds[j])

    def alpha_split(self, alpha: float) -> tuple[float, ...]:
        """What each level and the last may spend; together at most alpha (a last that is not random gets it all)."""
        return _alpha_split(alpha, len(self.levels), self.last.is_random)

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """Votes of a level, then what is below it, then more votes: each only as far as they can matter."""
        return _Certifying(self, n0, n, alpha, sampling).below(0, sampling.in_looks(n), inf)

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class that the cascade answers at the input itself."""
        return self._predicting(0, n=n, alpha=alpha)

    def _predicting(self, j: int, *, n: int, alpha: float) -> Procedure[Prediction]:
        if j == len(self.levels):
            return within(LAST, self.last.predicting(n=n, alpha=alpha))
        below = self._predicting(j + 1, n=n, alpha=Budget(alpha).share(2))
        return predicting.predicting(self.level(j), below, n=n, alpha=alpha)

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous samples would certify at every level and at the last."""
        check_samples(alpha, n0=n0, n=n)
        *shares, last = self.alpha_split(alpha)
        own = sampling.in_looks(n)
        for j, share in enumerate(shares):
            spent = own.last_level(n, Payment.of(share, picked=True).answer)
            threshold = self.level(j).threshold
            if bounds.lower(n, n, spent) <= threshold:
                fewest = floor(log(spent) / log(threshold) * (1 + 1e-9)) + 1
                raise RequestError(
                    f"n={n} samples can never certify at {level_name(j)} (threshold {threshold:g}), which gets "
                    f"{share:.3g} of alpha={alpha:g}, even if all agree; use n >= {fewest} or a larger alpha"
                )
            # What is below is asked only as far as this level excludes others, and so may claim that early.
            own = own.capped(sys.float_info.max)
        with naming_part(LAST, last, alpha):
            self.last.check_certify(n0=n0, n=n, alpha=last, sampling=self.of_last(sampling, own))

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous samples would predict at every level and at the last."""
        check_samples(alpha, n=n)
        share = alpha
        for j in range(len(self.levels)):
            share = Budget(share).share(2)
            with naming_part(level_name(j), share, alpha):
                predicting.check(self.level(j), n=n, alpha=share)
        with naming_part(LAST, share, alpha):
            self.last.check_predict(n=n, alpha=share)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What n unanimous samples prove, at the level where that is most."""
        return self.largest_below(0, self.alpha_split(alpha), n=n, sampling=sampling.in_looks(n))

    def largest_below(self, j: int, shares: Sequence[float], *, n: int, sampling: Sampling) -> float:
        """The same of level j and what is below it."""
        if j == len(self.levels):
            return self.last.largest_radius(n=n, alpha=shares[-1], sampling=sampling)
        furthest = self.largest_below(j + 1, shares, n=n, sampling=sampling)
        picked, deferred = (Payment.of(shares[j], picked=picked) for picked in (True, False))
        answer = table.lower(n, n, sampling.last_level(n, picked.answer))
        excluded = table.upper(0, n, sampling.last_level(n, deferred.rivals))
        return max(self.level(j).answers(answer), min(self.level(j).excludes(excluded), furthest))

    def of_last(self, asked: Sampling, own: Sampling) -> Sampling:
        """How the last is sampled beside levels sampled as `own`; one of several parts is sampled fixed where asked."""
        return own if isinstance(self.last, SmoothedRule) or asked.kind == "adaptive" else asked

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data; levels in the order they are tried."""
        assert isinstance(self.thresholds, tuple)
        return {
            "scheme": "cascade",
            "classes": self.classes,
            "thresholds": list(self.thresholds),
            "levels": [dict(level.describe()) for level in self.levels],
            "last": dict(self.last.describe()),
        }


class _Certifying:
    """One certification, level by level from the first."""

    def __init__(self, rule: CascadeRule, n0: int, n: int, alpha: float, asked: Sampling) -> None:
        self.rule, self.n0, self.n, self.alpha, self.asked = rule, n0, n, alpha, asked
        self.shares = rule.alpha_split(alpha)

    def below(self, j: int, sampling: Sampling, cap: float) -> Procedure[Certificate]:
        """The certificate of the cascade from level j on, or of its last; radii beyond `cap` are of no use."""
        if j < len(self.rule.levels):
            return self._level(j, sampling, cap)
        own = self.rule.of_last(self.asked, sampling)
        last = self.rule.last.certifying(n0=self.n0, n=self.n, alpha=self.shares[-1], sampling=own)
        return within(LAST, last)

    def _level(self, j: int, sampling: Sampling, cap: float) -> Procedure[Certificate]:
        level, n = self.rule.level(j), self.n
        then = first_look(level.request(Role.ESTIMATION, n), sampling.schedule(n, self.shares[j]))
        ask = level.request(Role.SELECTION, self.n0, then)
        picks = yield from selecting(ask, sampling, answers_clearly(level.rule.classes, level.threshold))
        picked = level.picked(picks.counts)
        if not sampling.wants(picked):
            return self._of_no_use(j, picks.stage)
        # A level that is to defer has shown enough once it excludes others as far as what is below reaches.
        own = sampling if picked is not None else sampling.capped(sys.float_info.max)
        tally = Tally(level, picked, n=n, alpha=self.shares[j], sampling=own)
        furthest = min(self.rule.largest_below(j + 1, self.shares, n=n, sampling=sampling), cap)
        found: Certificate | None = None
        yield from tally.sampling_alone()
        while not tally.settled(found, furthest):
            if found is None and tally.needs(furthest):
                reach = min(tally.possible_exclusion(tally.first), cap)
                found = yield from self.below(j + 1, self._of_use(tally, sampling, reach), reach)
            elif tally.poll.exhausted:
                break
            else:
                yield from tally.poll.more()
        return self._concluded(j, tally, picks.stage, found)

    def _of_use(self, tally: Tally, sampling: Sampling, reach: float) -> Sampling:
        """What is asked below: the class picked here, beyond what is proved or foreseen without it."""
        wanted = sampling.wanted if tally.picked is None else tally.picked
        return sampling.capped(reach).beyond(max(sampling.floor, tally.foreseen), wanted)

    def _of_no_use(self, j: int, selection: Stage) -> Certificate:
        """The level is to answer another class than the one wanted above it: no more samples, and no claim."""
        part = selection.part
        ledger, stop = tuple(self._ledger(j)), Outcome.FUTILITY_STOP
        return Certificate(None, 0.0, stop, self.alpha, (selection,), ledger, part, selection.name)

    def _concluded(self, j: int, tally: Tally, selection: Stage, found: Certificate | None) -> Certificate:
        label, proved = tally.label(found), tally.proved(found)
        part = tally.level.part
        estimation = tally.stage(label)
        abstained = found is not None and found.predicted is None and tally.picked is None
        limited = found.limited_by if found and (abstained or not tally.limits(found)) else estimation.name
        return Certificate(
            predicted=label if proved else None,
            radius=proved,
            outcome=Outcome.CERTIFIED if proved else self._why_not(tally, found),
            alpha=self.alpha,
            stages=(selection, estimation, *(found.stages if found else ())),
            ledger=tuple(self._ledger(j)),
            answered_by=found.answered_by if found and tally.left_to(found) else part,
            limited_by=limited,
        )

    def _ledger(self, j: int) -> Iterator[Spent]:
        """Every part from level j on, with what is reserved for it, asked or not."""
        for i in range(j, len(self.rule.levels)):
            yield Spent(level_name(i), self.shares[i])
        if self.rule.last.is_random:
            yield Spent(LAST, self.shares[-1])

    def _why_not(self, tally: Tally, found: Certificate | None) -> Outcome:
        if tally.picked is None and found is not None and found.predicted is None:
            fixed = self.asked.kind == "fixed" and found.outcome is Outcome.FUTILITY_STOP
            return Outcome.TOO_CLOSE if fixed else found.outcome
        futile = tally.sampling.targets and not tally.poll.exhausted
        return Outcome.FUTILITY_STOP if futile else Outcome.LEVEL_UNDECIDED


@lru_cache(maxsize=256)
def _alpha_split(alpha: float, levels: int, last_is_random: bool) -> tuple[float, ...]:
    shares, left = list[float](), alpha
    for j in range(levels):
        below_is_random = j + 1 < levels or last_is_random
        budget = Budget(left)
        shares.append(budget.spend(budget.share(2) if below_is_random else left, on=level_name(j)))
        left = budget.share(1) if below_is_random else left
    return (*shares, left)


def _thresholds(given: Any, levels: int) -> tuple[float, ...]:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    listed: tuple[Any, ...] = tuple(given) if several else (given,) * levels
    if len(listed) != levels:
        raise RequestError(f"expected one threshold, or one for each of the {levels} levels; got {given!r}")
    return tuple(check_threshold(threshold) for threshold in listed)


def _from_dict(plain: Mapping[str, Any], part: Callable[[Mapping[str, Any]], Rule]) -> CascadeRule:
    if not isinstance(plain["levels"], list):
        raise RequestError("the levels of a cascade must be a list; the file is damaged")
    levels = tuple(map(part, plain["levels"]))
    return CascadeRule(levels, part(plain["last"]), plain["thresholds"])  # type: ignore[arg-type]  # checked


def _parts(plain: Mapping[str, Any]) -> Iterator[Part]:
    yield from (Part(level_name(j), level) for j, level in enumerate(plain["levels"]))
    yield Part(LAST, plain["last"])


register(
    Entry(
        "cascade",
        summary="levels tried in order; each answers a class or defers to the next (Jeong & Shin 2024, generalised)",
        fields=("classes", "thresholds", "levels", "last"),
        parts=_parts,
        from_dict=_from_dict,
        levels_tried=levels_tried,
    )
)
