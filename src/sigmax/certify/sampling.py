"""How many votes a stage may cast, when it is looked at, and when it has shown what is asked. No torch.

# looks n_1 < ... < n_m = n; a_i level of look i; "proved" what all looks so far prove, "possible" what n draws may

By the union bound all bounds of all looks hold together with probability 1 - (a_1 + ... + a_m) >= 1 - alpha, so a
radius may be claimed from any of them and the sampling may stop for any reason whatever. The levels rise with the
looks and most of alpha is kept for the last, so that an input that needs all of its draws loses next to nothing
against fixed sampling.
"""

import math
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from sigmax.bounds import Budget, table
from sigmax.certify.checks import is_number, is_whole
from sigmax.certify.procedure import Answer, Ask, Counts, Question, votes
from sigmax.errors import RequestError

Kind = Literal["fixed", "adaptive"]
# How inputs are given up. A run is replayed by the very rule that stopped it, so files name it; the first did not.
STOPPING, EARLIER = "foreseen", "earlier"
LEAST_ALPHA = 1e-22  # the bounds go down to 1e-30, and looks and classes share it


class Look(NamedTuple):
    """A moment at which the votes are counted: after `stop` draws, at the level its bounds may be wrong."""

    stop: int
    level: float


@dataclass(frozen=True)
class Sampling:
    """What a certification is asked, and so when it may stop.

    "fixed": exactly n draws a stage. "adaptive": at most n, and no more than can matter. What matters is the radius
    itself, as n draws would prove it; or only which of the radii `targets` hold; or the radius up to `tolerance`
    times sigma. `cap`: radii beyond it are of no use to whoever asks (a router limits them already, say).
    `doubt`: at each look an input is given up, or settled from above, when n draws would still change the answer
    with no more than about this chance. It costs a little power and no soundness: giving up claims nothing.
    """

    kind: Kind = "fixed"
    targets: tuple[float, ...] = ()
    tolerance: float = 0.0
    first: int = 32  # draws before the first look
    growth: float = 1.25  # from look to look
    last: float = 0.9  # share of alpha kept for the last look
    doubt: float = 0.01
    cap: float = math.inf
    stopping: str = STOPPING  # the rule by which inputs are given up; another one is only read of, in old files

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
            raise RequestError(
                "ask for targets (which radii hold) or for a tolerance (the radius itself), not both"
            )
        self._check_looks()

    def _check_looks(self) -> None:
        kinds = {
            "first": is_whole(self.first) and 1 <= self.first <= 10**9,
            "growth": is_number(self.growth) and 1.01 <= self.growth <= 100,
            "last": is_number(self.last) and 0 < self.last < 1,
            "doubt": is_number(self.doubt) and 0 < self.doubt < 0.5,
            "cap": self.cap == math.inf or (is_number(self.cap) and self.cap >= 0),
            "stopping": self.stopping in (STOPPING, EARLIER),
        }
        wrong = [f"{name}={getattr(self, name)!r}" for name, right in kinds.items() if not right]
        if wrong:
            raise RequestError(f"{', '.join(wrong)}: no such schedule of looks; see Sampling for what they mean")
        object.__setattr__(self, "first", int(self.first))  # numpy's numbers would not survive a file
        for name in ("tolerance", "growth", "last", "doubt", "cap"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def settles_early(self) -> bool:
        """Whether a claim may be made before the last look; if not, all of alpha is the last look's."""
        return bool(self.targets) or self.tolerance > 0 or self.cap < math.inf

    def capped(self, cap: float) -> "Sampling":
        """The same question where radii beyond `cap` are of no use."""
        return self if self.kind == "fixed" else replace(self, cap=min(cap, self.cap))

    def schedule(self, n: int, alpha: float) -> tuple[Look, ...]:
        """The looks at up to n draws; their levels sum to at most alpha, exactly."""
        if self.kind == "fixed":
            return (Look(n, alpha),)
        if alpha < LEAST_ALPHA:
            raise RequestError(
                f"alpha={alpha:g} is too little to share among looks; use at least {LEAST_ALPHA:g}, or sample fixed"
            )
        return _schedule(n, alpha, self.first, self.growth, self.last if self.settles_early else 1.0)

    def last_level(self, n: int, alpha: float) -> float:
        """The level of the look that all draws lead to."""
        return self.schedule(n, alpha)[-1].level

    def enough(self, proved: float, possible: float, sigma: float) -> bool:
        """Whether more draws can no longer change what is asked; always False for fixed sampling.

        A radius of 0 stands for nothing proved, so a target of 0 asks for any radius above 0.
        """
        if self.kind == "fixed":
            return False
        if self.targets:
            return not any(_open(t, proved, possible) for t in self.targets if t <= self.cap)
        possible = min(possible, self.cap)
        return possible <= proved or (proved > 0 and possible - proved <= self.tolerance * sigma)

    def describe(self) -> Mapping[str, Any]:
        """As plain data, from which `remade` makes it again; what a run's plan holds."""
        if self.kind == "fixed":
            return {"kind": "fixed"}
        told = {name: value for name, value in asdict(self).items() if name != "cap"}
        return {**told, "targets": list(self.targets)}


def remade(description: Mapping[str, Any]) -> Sampling:
    """The sampling that `describe` described; a file is not trusted, so everything is checked again."""
    known = {f.name for f in fields(Sampling)} - {"cap"}
    listed = isinstance(description, Mapping) and isinstance(description.get("targets", []), list)
    if not listed or description.keys() - known:
        raise RequestError(
            f"unknown way of sampling {dict(description)!r:.120}; the file may be of a newer version"
        )
    return Sampling(**({"stopping": EARLIER} if description.get("kind") == "adaptive" else {}) | dict(description))


def replayable(sampling: Sampling) -> Sampling:
    """The same; refused where it was stopped by a rule that is no longer known, and so cannot be checked."""
    if sampling.stopping != STOPPING:
        raise RequestError(
            f"adaptive sampling was stopped by the rule {sampling.stopping!r}, and here only {STOPPING!r} can be "
            "replayed; take the version that made the file"
        )
    return sampling


def asked(
    sampling: "Kind | Sampling", targets: Iterable[float] | float | None = None, tolerance: float | None = None
) -> Sampling:
    """What a caller asked for by name, or a whole `Sampling` as it is."""
    if isinstance(sampling, Sampling):
        if targets is not None or tolerance is not None:
            raise RequestError("give targets and tolerance within the Sampling, or name the sampling 'adaptive'")
        replayable(sampling)
        if sampling.cap < math.inf:
            raise RequestError("a cap is set by schemes on their parts, not from outside; ask for targets instead")
        return sampling
    return Sampling(sampling, _listed(targets), 0.0 if tolerance is None else tolerance)


def in_words(sampling: Sampling) -> str:
    """What was asked, for a reader: 'adaptive, asked which of 0.25, 0.5 hold'."""
    if sampling.targets:
        return f"{sampling.kind}, asked which of {', '.join(f'{t:g}' for t in sampling.targets)} hold"
    if sampling.tolerance:
        return f"{sampling.kind}, to {sampling.tolerance:g} of sigma"
    return sampling.kind


def hopeful(counts: Counts, top: int, n: int, doubt: float) -> Counts:
    """The counts n draws may plausibly end with, at best for `top`: better ones have about the chance `doubt`.

    # d of n votes are cast, k of them for a class; u an exact bound of its share

        k n/d + sqrt(n (n - d)) * (u - k/d)

    For d << n that is n u. Towards the end ever less is open: the votes to come vary, and so does the share seen,
    but votes cast are cast; together the variance is n (n - d)/d times that of a vote, where n u has n^2/d of it.
    It serves to stop, never to claim. The bounds are exact all the same: near a share of 1, where far radii are
    decided, an approximation gives up inputs that one vote against them says little about.
    """
    drawn = sum(counts)
    spread = math.sqrt(n * (n - drawn))

    def ends(k: int, bound: float) -> float:
        return n * k / drawn + spread * (bound - k / drawn)

    most = counts[top] + n - drawn
    best = min(most, math.ceil(ends(counts[top], table.upper(counts[top], drawn, doubt))))
    rest = n - best
    others = (max(0, min(rest, math.floor(ends(k, table.lower(k, drawn, doubt))))) for k in counts)
    return tuple(best if c == top else k for c, k in enumerate(others))


class Poll:
    """The votes of one stage, look by look."""

    def __init__(self, ask: Ask, schedule: tuple[Look, ...]) -> None:
        self.ask = ask
        self.schedule = schedule
        self.looks: list[Counts] = []
        self.sums: list[Counts] = []  # all votes up to each look
        self.counts: Counts = (0,) * ask.classes

    def more(self) -> Generator[Question, Answer, None]:
        """Draw up to the next look."""
        start = self.schedule[len(self.looks) - 1].stop if self.looks else 0
        drawn = yield from votes(replace(self.ask, start=start, stop=self.schedule[len(self.looks)].stop))
        self.looks.append(drawn)
        self.counts = tuple(old + new for old, new in zip(self.counts, drawn, strict=True))
        self.sums.append(self.counts)

    @property
    def level(self) -> float:
        """What the bounds of the present look may spend; 0 where nothing may be claimed yet."""
        return self.schedule[len(self.looks) - 1].level

    def paid(self, schedule: tuple[Look, ...]) -> list[tuple[Counts, float]]:
        """The votes up to each look, with what a bound may spend there that has this schedule of its own."""
        return [(counts, look.level) for counts, look in zip(self.sums, schedule, strict=False) if look.level]

    @property
    def exhausted(self) -> bool:
        """Whether all draws have been cast."""
        return len(self.looks) == len(self.schedule)

    @property
    def recorded(self) -> tuple[Counts, ...]:
        """What a stage keeps of the looks: nothing where there was but one to take."""
        return tuple(self.looks) if len(self.schedule) > 1 else ()


def _open(target: float, proved: float, possible: float) -> bool:
    held = proved > 0 and proved >= target
    return not held and possible > 0 and possible >= target


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
