"""What a certification or a prediction says, with the counts that prove it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sigmax.bounds import Spent
from sigmax.errors import RequestError


class Outcome(Enum):
    """How one input ended. The value is advice to the reader; the name is what a record stores."""

    CERTIFIED = "no perturbation within the radius changes the class"
    PREDICTED = "the class leads at this alpha; certify the input to learn within which radius"
    TOO_CLOSE = "a class leads, but too narrowly to be shown with these draws; draw more samples (larger n)"
    NO_MAJORITY = (
        "no class has half of the votes, so more draws will not help; "
        "use bound='runner-up', a smaller sigma, or a model trained with this noise"
    )
    SELECTION_MISSED = (
        "the class picked by the selection draws did not win the estimation draws; "
        "raise n0, or accept that the input lies near a boundary"
    )
    GIVEN_UP = (
        "sampling stopped early because all n draws would hardly have shown what was asked; "
        "ask for smaller radii (targets), draw more samples (larger n), or use sampling='fixed'"
    )
    ROUTER_UNDECIDED = (
        "the router did not show which expert is in charge, which the rule 'min' needs; "
        "use rule='consensus', draw more samples, or train the router longer"
    )
    EXPERTS_DISAGREE = (
        "the router cannot rule out an expert that is undecided or of another class; "
        "draw more samples, or train the router longer"
    )
    NAME_UNDECIDED = (
        "the router was neither shown to name the class, nor to leave every other class unnamed for the expert; "
        "draw more samples, or make it name classes less readily"
    )
    SCALE_UNDECIDED = (
        "a scale was shown neither to name a class nor to leave the input to the smaller scales; "
        "draw more samples, or move its threshold"
    )
    NO_SCALE = (
        "no scale gives any class the share of votes that it asks for; "
        "add a smaller sigma, or use a model trained with these scales"
    )
    UNSOUND = (
        "claimed with the released code's shares of alpha, which sum to more than alpha; "
        "for comparison only, certify with budget='sound' for a certificate"
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
        "another tool's log claims more than its draws can show at the stated sigma, n and alpha; "
        "check those three, and do not rely on this radius"
    )

    @property
    def advice(self) -> str:
        """The same text as `value`, under the name that says what it is for."""
        return self.value


@dataclass(frozen=True, slots=True)
class Stage:
    """The votes of one stage and what was concluded from them.

    `alpha` is what the stage paid for all its bounds together: a stage with both bounds paid half for each.
    A selection stage proves nothing and pays nothing. In a router's stage the classes are the routes, and `radius`
    is the distance at which the strongest rival could win. In a deterministic expert's stage, one look without
    noise (`sigma` 0), `lower` and `upper` are the leading score and the strongest rival's.
    `looks`: the new votes of every look, where sampling was adaptive. `alpha` is then the level of the look that
    proved most, whose bounds `lower` and `upper` are (0 where no look could claim anything); in a cascade, and of a
    router that names classes, it is what all looks have together, and the bounds are the best of them.
    A stage without votes tells the noise of this very input (`sigma`), or what a memory did: `balls` are the stored
    answers that decided, by their place in the memory, with the input's distance from each; `upper` is the relative
    error of such distances, `radius` what was left.
    """

    name: str
    sigma: float
    counts: tuple[int, ...]
    n: int
    alpha: float = 0.0
    lower: float | None = None
    upper: float | None = None
    radius: float | None = None
    looks: tuple[tuple[int, ...], ...] = ()
    balls: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if sum(self.counts) != self.n or min(self.counts, default=0) < 0:
            raise RequestError(
                f"stage {self.name!r}: the counts must be non-negative and sum to n={self.n}; "
                f"they sum to {sum(self.counts)}"
            )
        if self.looks and tuple(map(sum, zip(*self.looks, strict=True))) != self.counts:
            raise RequestError(f"stage {self.name!r}: the counts of its looks must sum to its counts")


@dataclass(frozen=True, slots=True)
class Certificate:
    """With probability at least 1 - alpha over the draws, the smoothed class is `predicted` within `radius`.

    Radius in the l2 norm of the input's own units (pixels in [0, 1]). `predicted` is None and the radius 0.0
    when the procedure abstained; `outcome` then says why and what to do. `ledger` says what part of alpha was
    granted to what, also where it was not needed in the end; it sums to at most alpha. `asked` is what was asked:
    n0, n and the sampling with its schedule of looks, from which every level follows (a run's plan holds it once).
    """

    predicted: int | None
    radius: float
    outcome: Outcome
    alpha: float
    stages: tuple[Stage, ...]
    ledger: tuple[Spent, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def draws(self) -> int:
        """Votes cast in all stages together."""
        return sum(stage.n for stage in self.stages)

    @property
    def sigma(self) -> float | None:
        """The noise of the classifier in charge: of the expert the router put first; None where none was asked."""
        stage = in_charge(stage for stage in self.stages if not stage.name.endswith("selection"))
        return None if stage is None else stage.sigma


@dataclass(frozen=True, slots=True)
class Prediction:
    """With probability at least 1 - alpha, `predicted` is the smoothed class (or None: abstained)."""

    predicted: int | None
    p_value: float
    outcome: Outcome
    alpha: float
    stages: tuple[Stage, ...]
    ledger: tuple[Spent, ...] = ()

    @property
    def draws(self) -> int:
        """Votes cast in all stages together."""
        return sum(stage.n for stage in self.stages)


def in_charge(stages: Iterable[Stage]) -> Stage | None:
    """Of these stages that of the classifier in charge: of the first expert, and in a cascade of its last scale."""
    voting = [stage for stage in stages if "router" not in stage.name.split("/")[:-1]]
    if not voting:
        return None
    cascade, scale, _ = voting[0].name.rpartition("scale-")
    return [stage for stage in voting if stage.name.startswith(cascade + scale)][-1] if scale else voting[0]


def leading(counts: Sequence[int]) -> tuple[int, int]:
    """The class with the most votes and the one with the second most (the lower id wins a tie)."""
    order = sorted(range(len(counts)), key=lambda c: (-counts[c], c))
    return order[0], order[1]
