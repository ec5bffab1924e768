"""What a certification or a prediction says, with the counts that prove it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum, StrEnum
from math import isfinite
from typing import Any

from sigmax.bounds import Spent
from sigmax.errors import RequestError
from sigmax.radius.implied import implied_linf

_DIGITS_BEFORE_POINT = 310  # the largest float has 309


class Outcome(Enum):
    """How one input ended. The value is advice to the reader; the name is what a record stores."""

    CERTIFIED = "no perturbation within the radius changes the class"
    PREDICTED = "the class leads at this alpha; certify the input to learn within which radius"
    TOO_CLOSE = "a class leads, but too narrowly to be shown with these samples; use more samples (larger n)"
    NO_MAJORITY = (
        "no class has half of the votes, so more samples will not help; "
        "use a smaller sigma, a model trained with this noise, or bound='runner-up' where the model never defers"
    )
    SELECTION_MISSED = (
        "the class picked by the selection samples did not win the estimation samples; "
        "raise n0, or accept that the input lies near a boundary"
    )
    FUTILITY_STOP = (
        "sampling stopped early because all n samples were unlikely to show what was asked; "
        "ask for smaller radii (targets), use more samples (larger n), or sampling='fixed'"
    )
    ROUTER_UNDECIDED = (
        "the router's top route was not certified, which the rule 'min' needs; "
        "use rule='consensus', more samples, or train the router longer"
    )
    EXPERTS_DISAGREE = (
        "the router cannot rule out an expert that abstains or certifies another class; "
        "use more samples, or train the router longer"
    )
    LEVEL_UNDECIDED = (
        "a level of the cascade was shown neither to answer this class nor to defer on every other; "
        "use more samples, or raise its confidence threshold so that it defers more often"
    )
    REMEMBERED = (
        "no perturbation within the radius changes the class, within this memory: as long as later inputs are "
        "answered with it"
    )
    CROWDED = (
        "earlier answers of the memory leave this input no radius of its own; "
        "certify it earlier, or use smaller noise so that their balls are smaller"
    )
    UNREMEMBERED = (
        "the noise was chosen for this input alone, so its radius says nothing of its neighbours and is no "
        "certificate; certify with Memorized, which remembers"
    )
    TIED = "two classes have the same score, or so nearly that rounding may have swapped them"
    CLAIMED = "read from another tool's log, which holds no counts; certify again to prove it"
    ABSTAINED_ELSEWHERE = "another tool's log says it abstained; certify again to learn why"
    IMPOSSIBLE = (
        "another tool's log claims more than its samples can show at the stated sigma, n and alpha; "
        "check those three, and do not rely on this radius"
    )

    @property
    def advice(self) -> str:
        """The same text as `value`, under the name that says what it is for."""
        return self.value


class Role(StrEnum):
    """What a stage was sampled for."""

    SELECTION = "selection"  # votes that pick the class
    ESTIMATION = "estimation"  # votes that prove a bound
    PREDICTION = "prediction"  # votes that predict without a radius
    SCORE = "score"  # one forward pass without noise
    OFFSETS = "offsets"  # a vote at every offset of splitting noise; not a sample but all there are
    SIGMA = "sigma"  # the noise level of this input; no votes
    MEMORY = "memory"  # what earlier answers made of this one; no votes
    CLAIM = "claim"  # the noise level that another tool's log states; no votes


@dataclass(frozen=True, slots=True)
class Stage:
    """What was sampled for one part of a scheme in one role, and what was concluded from it.

    `part`: "" for the whole scheme, "router", "expert-0", "level-1", "last"; parts of parts are joined by "/".
    `alpha` is what the stage paid for all its bounds together. A selection stage proves nothing and pays nothing.
    In a router's stage the classes are the routes, and `radius` is the distance at which the strongest rival could
    win. In a level's stage `radius` is its answer radius where a class was picked, else its exclusion radius.
    `looks`: the new votes of every look, where sampling was adaptive. `alpha` is then the level of the look that
    proved most, whose bounds `lower` and `upper` are (0 where no look could claim anything); for a level of a cascade
    it is what all looks have together, and the bounds are the best of them.
    `scores`: the leading score, the strongest rival's, size and rounding (see `Scores`), of a network without noise.
    `balls`: the stored answers of a memory that decided, by their place in it, with the input's distance from each;
    `error`: the relative error of such distances; `radius`: what was left.
    """

    part: str
    role: Role
    sigma: float
    counts: tuple[int, ...]
    n: int
    alpha: float = 0.0
    lower: float | None = None
    upper: float | None = None
    radius: float | None = None
    looks: tuple[tuple[int, ...], ...] = ()
    scores: tuple[float, ...] = ()
    balls: tuple[tuple[int, float], ...] = ()
    error: float | None = None

    def __post_init__(self) -> None:
        if sum(self.counts) != self.n or min(self.counts, default=0) < 0:
            raise RequestError(
                f"stage {self.name!r}: the counts must be non-negative and sum to n={self.n}; "
                f"they sum to {sum(self.counts)}"
            )
        if self.looks and tuple(map(sum, zip(*self.looks, strict=True))) != self.counts:
            raise RequestError(f"stage {self.name!r}: the counts of its looks must sum to its counts")

    @property
    def name(self) -> str:
        """Part and role in one: the address of the stage's noise, and what a table prints. Nobody parses it."""
        return joined(self.part, self.role)

    def in_words(self) -> str:
        """As the end of a sentence: 'expert-1's estimation (p_A >= 0.93 from 10,000 samples at noise 0.5)'."""
        whose = f"{self.part}'s {self.role}" if self.part else f"the {self.role}"
        if self.role is Role.SCORE:
            first, second, *_ = self.scores
            return f"{whose} (leading score {rounded_down(first)}, strongest rival {rounded_up(second)}, without noise)"
        if self.role is Role.OFFSETS:
            first, second = (self.counts[c] for c in leading(self.counts))
            return f"{whose} ({first:,} votes, strongest rival {second:,}, of all {self.n:,} at noise {self.sigma:g})"
        if self.role is Role.MEMORY:
            return f"{whose} ({len(self.balls)} earlier certificates nearby)"
        if not self.counts:  # the input's own noise, or what a log states
            return f"{whose} ({self.sigma:g})"
        facts = [] if self.lower is None else [f"p_A >= {rounded_down(self.lower)}"]
        facts += [] if self.upper is None else [f"every other p <= {rounded_up(self.upper)}"]
        bounds = f"{', '.join(facts)} from " if facts else ""
        return f"{whose} ({bounds}{self.n:,} samples at noise {self.sigma:g})"

    def within(self, name: str) -> "Stage":
        """The same stage of a part of a larger scheme."""
        values = (self.role, self.sigma, self.counts, self.n, self.alpha, self.lower, self.upper, self.radius)
        return Stage(joined(name, self.part), *values, self.looks, self.scores, self.balls, self.error)


@dataclass(frozen=True, slots=True)
class Certificate:
    """With probability at least 1 - alpha over the samples, the smoothed class is `predicted` within `radius`.

    The radius is in the norm of the scheme's noise, in the input's own units (l2, pixels in [0, 1]). `predicted` is
    None and the radius 0.0 when the procedure abstained; `outcome` then says why and what to do. `ledger` says what
    part of alpha was reserved for what, also where it was not needed in the end; it sums to at most alpha.
    `answered_by`: the part whose classifier gave the class; None where none was asked. `limited_by`: the name of the
    stage that limits the radius. `asked`: n0, n, the norm, and the sampling with its schedule of looks, from which
    every level follows (a run's plan holds it once).
    """

    predicted: int | None
    radius: float
    outcome: Outcome
    alpha: float
    stages: tuple[Stage, ...] = field(repr=False)
    ledger: tuple[Spent, ...] = field(default=(), repr=False)
    answered_by: str | None = None
    limited_by: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def samples(self) -> int:
        """Votes cast in all stages together."""
        return sum(stage.n for stage in self.stages)

    @property
    def sigma(self) -> float | None:
        """The noise level of the part that answered; None where none was asked."""
        own = (s for s in self.stages if s.part == self.answered_by and s.role is not Role.SELECTION)
        stage = next(own, None)
        return None if stage is None else stage.sigma

    @property
    def limit(self) -> Stage | None:
        """The stage that limits the radius."""
        return next((stage for stage in self.stages if stage.name == self.limited_by), None)

    @property
    def is_claim(self) -> bool:
        """Whether another tool's log says so: nothing here was computed by sigmax."""
        return self.outcome in (Outcome.CLAIMED, Outcome.ABSTAINED_ELSEWHERE, Outcome.IMPOSSIBLE)

    def shown_radius(self, decimals: int = 4) -> str:
        """The radius in print: rounded down, or as it was given where another tool's log claims it."""
        return repr(self.radius) if self.is_claim else rounded_down(self.radius, decimals)

    def implied_linf(self, dim: int, *, norm: str | None = None) -> float:
        """The l-infinity radius that this one implies for inputs of `dim` numbers: see `radius.implied_linf`.

        norm: of the radius, where the certificate was read from a run, whose plan names it.
        """
        known = norm or self.asked.get("norm")
        if known is None:
            raise RequestError("this certificate does not say its norm; give the one of the run's plan: norm='l2'")
        return implied_linf(self.radius, norm=str(known), dim=dim)

    def explain(self) -> str:
        """One sentence: which class within which radius, or why none, and which stage limits it.

        Radii and lower bounds are rounded down, upper bounds up. Radii of another tool's log are as they were, and the
        sentence says that they are claims.
        """
        if self.predicted is None:
            said = f"Abstained ({self.outcome.name.lower()}): {self.outcome.advice}"
        elif self.is_claim:
            said = f"Another tool's log claims class {self.predicted} within radius {self.shown_radius()}"
            possible = self.outcome is not Outcome.IMPOSSIBLE
            said += ", and nothing proves it" if possible else ", although its samples cannot show it"
        else:
            said = f"Class {self.predicted} within radius {self.shown_radius()}"
        stage = self.limit
        if stage is None:
            return f"{said}."
        return f"{said}; {'limited' if self.radius else 'decided'} by {stage.in_words()}."

    def _repr_html_(self) -> str:
        from sigmax.rules.notebook import certificate_html

        return certificate_html(self)


@dataclass(frozen=True, slots=True)
class Prediction:
    """With probability at least 1 - alpha, `predicted` is the smoothed class (or None: abstained)."""

    predicted: int | None
    p_value: float
    outcome: Outcome
    alpha: float
    stages: tuple[Stage, ...] = field(repr=False)
    ledger: tuple[Spent, ...] = field(default=(), repr=False)

    @property
    def samples(self) -> int:
        """Votes cast in all stages together."""
        return sum(stage.n for stage in self.stages)

    def _repr_html_(self) -> str:
        from sigmax.rules.notebook import prediction_html

        return prediction_html(self)


def joined(part: str, inner: str) -> str:
    """A path of parts; either may be empty."""
    return f"{part}/{inner}" if part and inner else str(part or inner)


def leading(counts: Sequence[int]) -> tuple[int, int]:
    """The class with the most votes and the one with the second most (the lower id wins a tie)."""
    first = counts.index(max(counts))
    others = [*counts[:first], -1, *counts[first + 1 :]]
    return first, others.index(max(others))


def rounded_down(value: float, decimals: int = 4) -> str:
    """A radius or a lower bound in so many decimals, exactly rounded down: the text never exceeds the float.

    The float is what counts, not its shortest spelling: 0.978 is stored as 0.97799999999999998 and prints as
    0.977 with three decimals.
    """
    return _rounded(value, decimals, ROUND_FLOOR)


def rounded_up(value: float, decimals: int = 4) -> str:
    """An upper bound in so many decimals, never less than it is."""
    return _rounded(value, decimals, ROUND_CEILING)


def _rounded(value: float, decimals: int, way: str) -> str:
    if not isfinite(value):
        return str(value)
    exact, last = Decimal(value + 0.0), Decimal(1).scaleb(-decimals)  # -0.0 becomes 0.0
    rounded = exact.quantize(last, way, Context(prec=_DIGITS_BEFORE_POINT + decimals))
    return f"{rounded if rounded else abs(rounded):f}"  # -0.04 is 0.0 rounded up, not -0.0
