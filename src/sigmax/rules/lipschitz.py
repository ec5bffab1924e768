"""The rule of a network with a known Lipschitz constant: one look at its scores, no votes, no alpha. No torch."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.numbers import is_number
from sigmax.radius.normal import EPS
from sigmax.rules.certificate import Role, Stage
from sigmax.rules.checks import check_classes
from sigmax.rules.deterministic import DeterministicRule
from sigmax.rules.procedure import Answer, Question, ScoreRequest, scores
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling

LEAST_CONSTANT = 1e-30  # beyond it and its inverse 32-bit floats end
LEAST_ROUNDING = radius.rounding(1, bits=64)  # a record cannot claim finer arithmetic than there is


@dataclass(frozen=True)
class LipschitzRule(DeterministicRule):
    """The leading class stays in front within margin / (sqrt(2) * constant).

    The theorem speaks of exact scores; what arithmetic may move them by is taken off the margin: of each score
    `rounding` * (constant * size + |score|), where size is the input's norm and the root of its dimension.
    `rounding`: stated by the user; without it `radius.rounding` of dimension and precision, which says what it needs.
    """

    constant: float
    classes: int
    rounding: float | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.constant) and LEAST_CONSTANT <= self.constant <= 1 / LEAST_CONSTANT):
            raise RequestError(
                f"constant must be a positive number (the Lipschitz constant of the scores); got {self.constant!r}"
            )
        if self.rounding is not None and not (is_number(self.rounding) and 0 <= self.rounding < 1):
            raise RequestError(
                "rounding must be a number from 0 to below 1 (how far a score may be from the exact one, as a share of "
                f"constant * (|x| + sqrt(dimension)) + |score|); got {self.rounding!r}"
            )
        object.__setattr__(self, "rounding", None if self.rounding is None else float(self.rounding))
        object.__setattr__(self, "constant", float(self.constant))
        object.__setattr__(self, "classes", check_classes(self.classes))

    @property
    def norm(self) -> str:
        """Radii are Euclidean."""
        return "l2"

    @property
    def largest_noise(self) -> float:
        """There is none."""
        return 0.0

    def measured(self) -> Generator[Question, Answer, tuple[Stage, int]]:
        """The scores without noise, and the class that leads by more than rounding."""
        seen = yield from scores(ScoreRequest("", self.classes))
        sizes = 2 * self.constant * seen.size + abs(seen.score) + abs(seen.rival)
        margin = max(0.0, seen.score - seen.rival - self._share(seen.rounding) * sizes)
        votes = tuple(int(c == seen.top) for c in range(self.classes))
        proved = radius.lipschitz(margin, self.constant)
        found = (seen.score, seen.rival, seen.size, seen.rounding)
        return Stage("", Role.SCORE, 0.0, votes, 1, radius=proved, scores=found), seen.top

    def _share(self, measured: float) -> float:
        """What rounding takes of a score. Below 1 it is the strongest rival that limits the margin; else nothing is."""
        share = max(measured, LEAST_ROUNDING) if self.rounding is None else self.rounding
        return share + 4 * EPS if share < 1 else inf  # and this sum's own

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """Scores may differ by any amount."""
        return inf

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        stated = {} if self.rounding is None else {"rounding": self.rounding}
        return {"scheme": "lipschitz", "constant": self.constant, "classes": self.classes, **stated}


register(
    Entry(
        "lipschitz",
        summary="a network with a known Lipschitz constant, without noise",
        fields=("constant", "classes"),
        optional=("rounding",),
        from_dict=lambda plain, part: LipschitzRule(plain["constant"], plain["classes"], plain.get("rounding")),
        assumes=lambda plain: (
            "the stated Lipschitz constant, and scores exact up to "
            + ("the stated rounding" if "rounding" in plain else "the rounding allowance"),
        ),
        votes=False,
    )
)
