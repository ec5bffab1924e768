"""The rule of derandomised splitting noise: a vote at every offset, counted once, without alpha. No torch."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.numbers import is_whole
from sigmax.radius.splitting import Split
from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage, leading
from sigmax.rules.checks import check_samples
from sigmax.rules.procedure import Answer, Procedure, Question, VoteRequest, votes
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling


@dataclass(frozen=True)
class SplittingRule:
    """The class with the most votes over all offsets; certain, not only probable (see `radius.splitting`).

    A tie of the two leading classes abstains.
    """

    noise: Split
    classes: int

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Split):
            raise RequestError(f"noise must be a radius.Split; got {type(self.noise).__name__}")
        if not is_whole(self.classes) or self.classes < 2:
            raise RequestError(f"classes must be a whole number of at least 2; got {self.classes!r}")
        object.__setattr__(self, "classes", int(self.classes))

    @property
    def norm(self) -> str:
        """Radii are sums of absolute changes."""
        return self.noise.norm

    @property
    def is_random(self) -> bool:
        """Every offset is looked at, so nothing can be misled."""
        return False

    @property
    def largest_noise(self) -> float:
        """Its scale."""
        return self.noise.scale

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """A vote at every offset; the samples allowed are not used."""
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
        """The class with the most votes."""
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
        counts = yield from votes(VoteRequest("", Role.OFFSETS, self.classes, self.noise, self.noise.offsets))
        first, second = leading(counts)
        proved = radius.splitting(counts[first], counts[second], self.noise.grid)
        return Stage("", Role.OFFSETS, self.noise.scale, counts, self.noise.offsets, radius=proved), first

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n0=n0, n=n)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What unanimous votes prove."""
        return radius.splitting(self.noise.offsets, 0, self.noise.grid)

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Any number of samples will do."""
        check_samples(alpha, n=n)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data; `scale` follows from offsets and grid, and is there to be read."""
        noise = self.noise
        split = {"offsets": noise.offsets, "grid": noise.grid, "seed": noise.seed}
        return {"scheme": "splitting", "noise": noise.name, "scale": noise.scale, **split, "classes": self.classes}


def _from_dict(plain: Mapping[str, Any], part: object) -> SplittingRule:
    noise = Split(plain["offsets"], plain["grid"], plain["seed"])
    if (plain["noise"], plain["scale"]) != (noise.name, noise.scale):
        raise RequestError(
            f"{noise.offsets} offsets on a grid of {noise.grid} are {noise.name} noise of scale {noise.scale!r}, not "
            f"{plain['noise']!r:.80} of {plain['scale']!r:.80}; the file is damaged"
        )
    return SplittingRule(noise, plain["classes"])


register(
    Entry(
        "splitting",
        summary="one network at every split of a quantised image, without chance (Levine & Feizi 2021)",
        fields=("noise", "scale", "offsets", "grid", "seed", "classes"),
        from_dict=_from_dict,
        assumes=lambda plain: (f"perturbed images are multiples of 1/{plain['grid']} too, as stored images are",),
        votes=False,
    )
)
