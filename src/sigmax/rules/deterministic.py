"""What rules without chance have in common: an input is looked at once, and that proves its radius. No torch."""

from abc import ABC, abstractmethod
from collections.abc import Generator

from sigmax.rules.certificate import Certificate, Outcome, Prediction, Stage
from sigmax.rules.checks import check_samples
from sigmax.rules.procedure import Answer, Procedure, Question
from sigmax.rules.sampling import FIXED, Sampling


class DeterministicRule(ABC):
    """Certificates that are certain, not only probable: of alpha nothing is spent, and no samples are taken.

    Subclasses hold the look and its theorem alone. A radius of 0 abstains: two classes are tied, or may be.
    """

    @abstractmethod
    def measured(self) -> Generator[Question, Answer, tuple[Stage, int]]:
        """The one stage, with the radius that it proves, and the class that leads in it."""

    @property
    def is_random(self) -> bool:
        """Nothing is sampled, so nothing can be misled."""
        return False

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """One look; the samples allowed are not used."""
        stage, top = yield from self.measured()
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
        """The class that leads within some radius."""
        stage, top = yield from self.measured()
        shown = bool(stage.radius)
        return Prediction(
            predicted=top if shown else None,
            p_value=0.0 if shown else 1.0,
            outcome=Outcome.PREDICTED if shown else Outcome.TIED,
            alpha=alpha,
            stages=(stage,),
        )

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n0=n0, n=n)

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n=n)
