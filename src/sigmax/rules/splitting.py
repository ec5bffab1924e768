"""The rule of derandomised splitting noise: a vote at every offset, counted once, without alpha. No torch."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.radius.splitting import Split
from sigmax.rules.certificate import Role, Stage, leading
from sigmax.rules.checks import check_classes
from sigmax.rules.deterministic import DeterministicRule
from sigmax.rules.procedure import Answer, Question, VoteRequest, votes
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling


@dataclass(frozen=True)
class SplittingRule(DeterministicRule):
    """The class with the most votes over all offsets (see `radius.splitting`)."""

    noise: Split
    classes: int

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Split):
            raise RequestError(f"noise must be a radius.Split; got {self.noise!r:.80}. Give scale= for the usual one")
        object.__setattr__(self, "classes", check_classes(self.classes))

    @property
    def norm(self) -> str:
        """Radii are sums of absolute changes."""
        return self.noise.norm

    @property
    def largest_noise(self) -> float:
        """Its scale."""
        return self.noise.scale

    def measured(self) -> Generator[Question, Answer, tuple[Stage, int]]:
        """A vote at every offset, and the class with the most of them."""
        counts = yield from votes(VoteRequest("", Role.OFFSETS, self.classes, self.noise, self.noise.offsets))
        first, second = leading(counts)
        proved = radius.splitting(counts[first], counts[second], self.noise.grid)
        return Stage("", Role.OFFSETS, self.noise.scale, counts, self.noise.offsets, radius=proved), first

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What unanimous votes prove."""
        return radius.splitting(self.noise.offsets, 0, self.noise.grid)

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
        assumes=lambda plain: (
            f"perturbed images are multiples of 1/{plain['grid']} too, as stored images are",
            "the network answers alike when it sees the same again",
        ),
        votes=False,
    )
)
