"""The rule of a network with a known Lipschitz constant: one look at its scores, no votes, no alpha. No torch."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage
from sigmax.rules.checks import check_samples
from sigmax.rules.procedure import Answer, Procedure, Question, ScoreRequest, scores
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling

LEAST_CONSTANT = 1e-30  # beyond it and its inverse 32-bit floats end
# Of a score or of the constant, whichever is more. The constant, because scores may be small differences of large
# numbers: a network's values are of the size of its inputs. Measured on 12 orthogonal layers of 784: 2**-19.
ROUNDING = 2.0**-14
UNIT = 2.0**-24  # rounding of one 32-bit operation; a sum of d products errs by at most d times that of their sizes


@dataclass(frozen=True)
class LipschitzRule:
    """The leading class stays in front within margin / (sqrt(2) * constant): certain, not only probable.

    The theorem speaks of exact scores; what 32-bit arithmetic may move them by is taken off the margin. The allowance
    grows with dimension, constant and norm of the input, as the rounding of a product of matrices does at worst. For
    networks of many layers it is measured, not proved.
    """

    constant: float
    classes: int

    def __post_init__(self) -> None:
        if not (is_number(self.constant) and LEAST_CONSTANT <= self.constant <= 1 / LEAST_CONSTANT):
            raise RequestError(
                f"constant must be a positive number (the Lipschitz constant of the scores); got {self.constant!r}"
            )
        if not is_whole(self.classes) or self.classes < 2:
            raise RequestError(f"classes must be a whole number of at least 2; got {self.classes!r}")
        object.__setattr__(self, "constant", float(self.constant))
        object.__setattr__(self, "classes", int(self.classes))

    @property
    def norm(self) -> str:
        """Radii are Euclidean."""
        return "l2"

    @property
    def is_random(self) -> bool:
        """Nothing is sampled, so nothing can be misled."""
        return False

    @property
    def largest_noise(self) -> float:
        """There is none."""
        return 0.0

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """One look; the samples allowed are not used."""
        stage, top = yield from self._measure()
        assert stage.radius is not None
        certified = stage.radius > 0
        return Certificate(
            predicted=top if certified else None,
            radius=stage.radius,
            outcome=Outcome.CERTIFIED if certified else Outcome.TIED,
            alpha=alpha,
            stages=(stage,),
            answered_by="",
            limited_by=stage.name,
        )

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class that leads by more than rounding."""
        stage, top = yield from self._measure()
        shown = bool(stage.radius)
        return Prediction(
            predicted=top if shown else None,
            p_value=0.0 if shown else 1.0,
            outcome=Outcome.PREDICTED if shown else Outcome.TIED,
            alpha=alpha,
            stages=(stage,),
        )

    def _measure(self) -> Generator[Question, Answer, tuple[Stage, int]]:
        seen = yield from scores(ScoreRequest("", self.classes))
        largest = max(self.constant, abs(seen.score), abs(seen.rival))
        rounding = max(ROUNDING * largest, UNIT * self.constant * seen.size)
        margin = max(0.0, seen.score - seen.rival - 2 * rounding)
        votes = tuple(int(c == seen.top) for c in range(self.classes))
        proved = radius.lipschitz(margin, self.constant)
        return Stage("", Role.SCORE, 0.0, votes, 1, radius=proved, scores=(seen.score, seen.rival, seen.size)), seen.top

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n0=n0, n=n)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """Scores may differ by any amount."""
        return inf

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n=n)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        return {"scheme": "lipschitz", "constant": self.constant, "classes": self.classes}


register(
    Entry(
        "lipschitz",
        summary="a network with a known Lipschitz constant, without noise",
        fields=("constant", "classes"),
        from_dict=lambda plain, part: LipschitzRule(plain["constant"], plain["classes"]),
        assumes=lambda plain: ("the stated Lipschitz constant, and scores exact up to the rounding allowance",),
        votes=False,
    )
)
