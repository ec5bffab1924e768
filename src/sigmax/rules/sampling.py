"""How many votes a stage may cast, when it is looked at, and when it has shown what is asked. No torch.

# looks n_1 < ... < n_m = n; a_i level of look i; "proved" what all looks so far prove, "possible" what n samples may

By the union bound all bounds of all looks hold together with probability 1 - (a_1 + ... + a_m) >= 1 - alpha, so a
radius may be claimed from any of them and the sampling may stop for any reason whatever. The levels rise with the
looks and most of alpha is kept for the last, so that an input that needs all of its samples loses next to nothing
against fixed sampling.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from sigmax.bounds import Budget, table
from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.rules.procedure import Counts

Kind = Literal["fixed", "adaptive"]
LITTLE = 0.1  # share of all samples that is little: after so many another stage may be asked first
LITTLE_FOR_ONE = 0.04  # the same where one radius is asked about, which takes few samples
INTERNAL = {"cap", "floor", "wanted"}  # set by schemes on their parts
SELECTION_GROWTH = 2.0  # of the selection samples from look to look
LEAST_ALPHA = 1e-22  # the bounds go down to 1e-30, and looks and classes share it


class Look(NamedTuple):
    """A moment at which the votes are counted: after `stop` samples, at the level its bounds may be wrong."""

    stop: int
    level: float


@dataclass(frozen=True)
class Sampling:
    """What a certification is asked, and so when it may stop.

    "fixed": exactly n samples a stage. "adaptive": at most n, and no more than can matter. What matters is the radius
    itself, as n samples would prove it; or only which of the radii `targets` hold; or the radius up to `tolerance`
    times sigma. `cap`, `floor`, `wanted`: radii beyond the cap (a router limits them already, say), radii up to the
    floor (they are proved elsewhere) and any class but the wanted one are of no use to whoever asks. They serve to
    stop, never to claim, so a rule may ignore the last two.
    Selection samples end once the pick is clear (see `selecting`).
    `futility`: at each look sampling stops when the conditional power, the chance that all n samples would still
    change the answer, is below about this. It costs a little power and no soundness: a futility stop claims nothing.
    """

    kind: Kind = "fixed"
    targets: tuple[float, ...] = ()
    tolerance: float = 0.0
    first0: int = 16  # selection samples before the first look at them, of n0; 0: all n0 at once
    first: int = 32  # samples before the first look
    growth: float = 1.25  # from look to look
    last: float = 0.9  # share of alpha kept for the last look
    futility: float = 0.01
    cap: float = math.inf
    floor: float = 0.0
    wanted: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise RequestError(f"sampling must be one of {', '.join(get_args(Kind))}; got {self.kind!r}")
        object.__setattr__(self, "targets", _checked_targets(self.targets))
        if not (is_number(self.tolerance) and 0 <= self.tolerance <= 1):
            raise RequestError(
                f"tolerance must be a share of sigma from 0 to 1 (0.05 is usual); got {self.tolerance!r}"
            )
        if self.kind == "fixed" and (self.targets or self.tolerance):
            raise RequestError(
                "targets and tolerance say when sampling may stop, and fixed sampling never does; "
                "ask for sampling='adaptive' with them"
            )
        if self.targets and self.tolerance:
            raise RequestError("ask for targets (which radii hold) or for a tolerance (the radius itself), not both")
        self._check_looks()

    def _check_looks(self) -> None:
        kinds = {
            "first0": is_whole(self.first0) and 0 <= self.first0 <= 10**9,
            "first": is_whole(self.first) and 1 <= self.first <= 10**9,
            "growth": is_number(self.growth) and 1.01 <= self.growth <= 100,
            "last": is_number(self.last) and 0 < self.last < 1,
            "futility": is_number(self.futility) and 0 < self.futility < 0.5,
            "cap": self.cap == math.inf or (is_number(self.cap) and self.cap >= 0),
            "floor": is_number(self.floor) and self.floor >= 0,
            "wanted": self.wanted is None or (is_whole(self.wanted) and self.wanted >= 0),
        }
        wrong = [f"{name}={getattr(self, name)!r}" for name, right in kinds.items() if not right]
        if wrong:
            raise RequestError(f"{', '.join(wrong)}: no such schedule of looks; see Sampling for what they mean")
        for name in ("first0", "first"):
            object.__setattr__(self, name, int(getattr(self, name)))  # numpy's numbers would not survive a file
        for name in ("tolerance", "growth", "last", "futility", "cap"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def settles_early(self) -> bool:
        """Whether a claim may be made before the last look; if not, all of alpha is the last look's."""
        return bool(self.targets) or self.tolerance > 0 or self.cap < math.inf

    def capped(self, cap: float) -> "Sampling":
        """The same question where radii beyond `cap` are of no use."""
        return self if self.kind == "fixed" or cap >= self.cap else self._with(cap=max(0.0, cap))

    def beyond(self, floor: float, wanted: int | None) -> "Sampling":
        """The same question where radii up to `floor`, or for another class than the wanted one, are of no use."""
        return self if self.kind == "fixed" else self._with(floor=floor, wanted=wanted)

    def in_looks(self, n: int) -> "Sampling":
        """Fixed sampling of a stage that may be of no use: two small looks, then all n. Adaptive sampling as it is."""
        return self if self.kind == "adaptive" else _in_looks(n)

    def _with(self, **changed: float | int | None) -> "Sampling":
        other = object.__new__(type(self))  # checked already, once for all inputs
        vars(other).update(vars(self), **changed)
        return other

    def wants(self, label: int | None) -> bool:
        """Whether a radius for this class (None: not known yet) may be of use."""
        return self.wanted is None or label is None or label == self.wanted

    def schedule(self, n: int, alpha: float) -> tuple[Look, ...]:
        """The looks at up to n samples; their levels sum to at most alpha, exactly."""
        if self.kind == "fixed":
            return (Look(n, alpha),)
        if alpha < LEAST_ALPHA:
            raise RequestError(
                f"alpha={alpha:g} is too little to share among looks; use at least {LEAST_ALPHA:g}, or sample fixed"
            )
        return _schedule(n, alpha, self.first, self.growth, self.last if self.settles_early else 1.0)

    def selection_stops(self, n0: int) -> Sequence[int]:
        """After how many of the n0 selection samples they are looked at."""
        adaptive = self.kind == "adaptive" and self.first0
        return _stops(n0, self.first0, SELECTION_GROWTH) if adaptive else (n0,)

    def last_level(self, n: int, alpha: float) -> float:
        """The level of the look that all samples lead to."""
        return self.schedule(n, alpha)[-1].level

    def enough(self, proved: float, possible: float, sigma: float) -> bool:
        """Whether more samples can no longer change what is asked; always False for fixed sampling.

        A radius of 0 stands for nothing proved, so a target of 0 asks for any radius above 0.
        """
        if self.kind == "fixed":
            return False
        proved = max(proved, self.floor)
        if self.targets:
            held = bisect_right(self.targets, proved) if proved > 0 else 0
            reachable = bisect_right(self.targets, min(possible, self.cap)) if possible > 0 else 0
            return reachable <= held
        possible = min(possible, self.cap)
        return possible <= proved or (proved > 0 and possible - proved <= self.tolerance * sigma)

    def describe(self) -> Mapping[str, Any]:
        """As plain data, from which `remade` builds it again; what a run's plan holds."""
        if self.kind == "fixed":
            return {"kind": "fixed"}
        plain = {name: value for name, value in asdict(self).items() if name not in INTERNAL}
        return {**plain, "targets": list(self.targets)}


def remade(description: Mapping[str, Any]) -> Sampling:
    """The sampling that `describe` described; a file is not trusted, so everything is checked again."""
    known = {f.name for f in fields(Sampling)} - INTERNAL
    listed = isinstance(description, Mapping) and isinstance(description.get("targets", []), list)
    if not listed or description.keys() - known:
        raise RequestError(f"unknown way of sampling {dict(description)!r:.120}; the file may be of a newer version")
    return Sampling(**description)


def asked(
    sampling: "Kind | Sampling", targets: Iterable[float] | float | None = None, tolerance: float | None = None
) -> Sampling:
    """What a caller asked for by name, or a whole `Sampling` as it is."""
    if isinstance(sampling, Sampling):
        if targets is not None or tolerance is not None:
            raise RequestError("give targets and tolerance within the Sampling, or name the sampling 'adaptive'")
        if sampling.cap < math.inf or sampling.floor or sampling.wanted is not None:
            raise RequestError(
                "cap, floor and wanted are set by schemes on their parts, not from outside; ask for targets instead"
            )
        return sampling
    return Sampling(sampling, _listed(targets), 0.0 if tolerance is None else tolerance)


def in_words(sampling: Sampling) -> str:
    """What was asked, for a reader: 'adaptive, asked which of 0.25, 0.5 hold'."""
    if sampling.targets:
        return f"{sampling.kind}, asked which of {', '.join(f'{t:g}' for t in sampling.targets)} hold"
    if sampling.tolerance:
        return f"{sampling.kind}, to {sampling.tolerance:g} of sigma"
    return sampling.kind


def optimistic_counts(counts: Counts, top: int, n: int, futility: float) -> Counts:
    """The counts n samples may plausibly end with, at best for `top`: better ones have about the chance `futility`.

    # d of n votes are cast, k of them for a class; u an exact bound of its share

        k n/d + sqrt(n (n - d)) * (u - k/d)

    For d << n that is n u. Towards the end ever less is open: the votes to come vary, and so does the share seen,
    but votes cast are cast; together the variance is n (n - d)/d times that of a vote, where n u has n^2/d of it.
    It serves to stop, never to claim. The bounds are exact all the same: near a share of 1, where large radii are
    decided, an approximation would stop for a single vote against the class.
    """
    cast = sum(counts)
    best = optimistic_count(counts[top], cast, n, futility)
    ends = [min(n - best, pessimistic_count(k, cast, n, futility)) for k in counts]
    ends[top] = best
    return tuple(ends)


def optimistic_pair(k: int, rival: int, cast: int, n: int, futility: float) -> tuple[int, int]:
    """Two of these counts: that of k votes, at best for them, and that of the strongest rival's."""
    best = optimistic_count(k, cast, n, futility)
    return best, min(n - best, pessimistic_count(rival, cast, n, futility))


def optimistic_count(k: int, cast: int, n: int, futility: float) -> int:
    """The first of these counts alone: k of the votes cast are for the class."""
    end = n * k / cast + math.sqrt(n * (n - cast)) * (table.upper(k, cast, futility) - k / cast)
    return min(k + n - cast, math.ceil(end))


def pessimistic_count(k: int, cast: int, n: int, futility: float) -> int:
    """The votes that a class may plausibly be left with at worst, as `optimistic_count` is at best."""
    end = n * k / cast + math.sqrt(n * (n - cast)) * (table.lower(k, cast, futility) - k / cast) if k else 0.0
    return max(0, math.floor(end))


@lru_cache(maxsize=256)
def _in_looks(n: int) -> Sampling:
    """About n / 32 and n / 6 samples; a stage that is of use goes on to n."""
    return Sampling("adaptive", first0=0, first=max(1, n // 32), growth=6.0, futility=0.05)


@lru_cache(maxsize=256)
def _schedule(n: int, alpha: float, first: int, growth: float, last: float) -> tuple[Look, ...]:
    stops = _stops(n, first, growth)
    budget, weights = Budget(alpha), range(1, len(stops))
    early = [(1 - last) * alpha * w / sum(weights) for w in weights]
    levels = [budget.spend(level, on="a look") if level > 0 else 0.0 for level in early]
    return tuple(Look(*pair) for pair in zip(stops, [*levels, budget.left], strict=True))


def _stops(n: int, first: int, growth: float) -> list[int]:
    """Multiples of `first`, each `growth` times the one before or the next one up; then n."""
    stops, stop = list[int](), first
    while stop * (1 + growth) / 2 < n:  # a look just before the last would tell nothing new
        stops.append(stop)
        stop = max(stop + first, round(stop * growth / first) * first)
    return [*stops, n]


def _listed(targets: Iterable[float] | float | None) -> tuple[float, ...]:
    if targets is None:
        return ()
    if is_number(targets):
        return (float(targets),)  # type: ignore[arg-type]  # a number, as was seen
    listed = _checked_targets(targets)
    if not listed:
        raise RequestError("targets must name at least one radius; leave them out to ask for the radius itself")
    return listed


def _checked_targets(targets: object) -> tuple[float, ...]:
    try:
        listed = None if isinstance(targets, str | bytes | Mapping) else tuple(targets)  # type: ignore[var-annotated, arg-type]
    except TypeError:
        listed = None
    if listed is None:
        raise RequestError(f"targets must be a list of radii such as (0.25, 0.5); got {targets!r}")
    wrong = [t for t in listed if not is_number(t) or t < 0]
    if wrong:
        raise RequestError(f"targets must be radii of at least 0, such as (0.25, 0.5); got {wrong[0]!r}")
    return tuple(sorted({float(t) for t in listed}))


FIXED = Sampling()
