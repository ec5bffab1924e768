"""A scheme as a package outside sigmax would define it: theorem, rule, class and options, each with its
registration.

# d numbers an input has; R an l2 radius. |delta|_2 <= sqrt(d) |delta|_inf, so the class also holds within R / sqrt(d)
# in the l-infinity norm.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sigmax.config.validation import Count, Positive
from sigmax.engine.voter import Voter
from sigmax.pipeline.compare import kinds as compare
from sigmax.radius.noise import Gaussian, noise_from
from sigmax.rules import registry as rules
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes import registry as schemes
from sigmax.schemes.scheme import Scheme

NAME = "pixelwise"
FIELDS = ("noise", "sigma", "classes", "bound", "defers", "dim")


@dataclass(frozen=True)
class PixelwiseRule(SmoothedRule):
    """Constant noise, certified in l-infinity."""

    dim: int = 1

    @property
    def norm(self) -> str:
        return "linf"

    def reach(self, lower: float, upper: float | None) -> float:
        return math.nextafter(super().reach(lower, upper) / math.sqrt(self.dim), 0.0)

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "scheme": NAME, "dim": self.dim}


rules.register(
    rules.Entry(
        NAME,
        summary="one network under one noise level, certified in l-infinity",
        fields=FIELDS,
        from_dict=lambda plain, part: PixelwiseRule(
            noise_from(plain), *(plain[name] for name in FIELDS[2:-1]), dim=plain["dim"]
        ),
        assumes=lambda plain: ("every input has the stated number of pixels",),
    )
)


class Pixelwise(Scheme):
    def __init__(self, model, *, sigma, classes, dim, **how) -> None:
        rule = PixelwiseRule(Gaussian(sigma), classes, dim=dim)
        super().__init__(rule, {"base": Voter(model, classes=classes, **how)})
        self.sigma = rule.sigma

    def sigma_of(self, network: str) -> float:
        return self.sigma

    def __repr__(self) -> str:
        return f"Pixelwise(sigma {self.sigma:g}, {self.classes} classes)"


def _from_rule(rule: PixelwiseRule, source: schemes.NetworkSource) -> Pixelwise:
    model = source.network(rule.columns)
    return Pixelwise(model, sigma=rule.sigma, classes=rule.classes, dim=rule.dim, **source.how)


schemes.register(NAME, _from_rule)


@compare.register
class PixelwiseScheme(compare.NetworkScheme):
    """What `sigmax compare` reads of it."""

    kind: Literal["pixelwise"]
    sigma: Positive
    dim: Count

    def built(self, over: compare.Ingredients) -> Pixelwise:
        return Pixelwise(over.networks[0], sigma=self.sigma, dim=self.dim, classes=over.classes, **over.how)
