"""The rule of noise that changes with the input, but not faster than a known rate. No torch."""

# sigma(x) the field's noise; |log sigma(x) - log sigma(y)| <= rate * |x - y| + jitter

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

from sigmax import radius
from sigmax.bounds import table
from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.radius.elastic.ratio_limits import sharp_ratio_limits
from sigmax.radius.elastic.semi_elastic import check_dim
from sigmax.radius.noise import Gaussian, grid_of
from sigmax.rules.certificate import Certificate, Prediction, Role, Stage
from sigmax.rules.procedure import Procedure, SigmaRequest, own_noise
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

SIGMA = SigmaRequest("")
ROUNDING = 1.01 * 2.0**-23  # of log sigma between two inputs, since noise is scaled by 32-bit sigmas
LIMITS_ERROR = 1 + 1e-6  # far above the rounding of the limits' logarithms in any dimension allowed
PROVED = ("nearest-neighbour",)  # the fields whose rate follows from how they are made
KEYS = {  # of the descriptions of known fields; a class of the user's own may describe itself as it likes
    "nearest-neighbour": frozenset("field base rate k offset points train jitter proved".split()),
    "vouched": frozenset("field function rate jitter proved".split()),
}


@dataclass(frozen=True)
class Elastic(SmoothedRule):
    """The smoothed classifier at one input, whose neighbours have other noise."""

    rate: float = 0.0
    jitter: float = 0.0
    dim: int = 1

    def reach(self, lower: float, upper: float | None) -> float:
        """How far no class overtakes although the noise changes; `upper` would not help."""
        return radius.semi_elastic(self.sigma, lower, self.rate, self.dim, jitter=self.jitter)


@dataclass(frozen=True)
class SemiElasticRule:
    """n0 samples under sigma(x) pick the class, n others bound its share, `radius.semi_elastic` does the rest.

    field: what `SigmaField.describe` returns. The certificate is as good as the field's rate: proved for the fields
    named in PROVED, vouched for by the user for others, and a record says which. What a record cannot show is that
    its sigma is the field's at that input: for this the field and the input are needed.
    Source: Sukenik et al. (2022), "Intriguing properties of input-dependent randomized smoothing", Theorem 3.2.
    """

    field: Mapping[str, Any]
    dim: int
    classes: int
    grid: int | None = None  # of its noise: see `Gaussian`

    def __post_init__(self) -> None:
        if not isinstance(self.field, Mapping):
            raise RequestError(f"the field must be described by a table; got {self.field!r:.80}")
        kind: Any = self.field.get("field")
        if isinstance(kind, str) and self.field.keys() != KEYS.get(kind, self.field.keys()):
            raise RequestError(
                f"the description of a field {kind!r} must have {', '.join(sorted(KEYS[kind]))} and no more; got "
                f"{', '.join(map(str, self.field))[:200]}"
            )
        if kind == "nearest-neighbour" and not _is_nearest(self.field):
            raise RequestError(f"a value in the description of the field is of the wrong kind: {self.field!r:.200}")
        for name in ("rate", "jitter"):
            value: Any = self.field.get(name)
            if not is_number(value) or value < 0:
                raise RequestError(f"the field must have a {name} of at least 0; got {value!r}")
        if self.field.get("proved") is not (self.field.get("field") in PROVED):
            raise RequestError(
                f"only the rate of a field {', '.join(PROVED)} is proved, and it always is; the description of a "
                f"field {self.field.get('field')!r} says proved={self.field.get('proved')!r}"
            )
        check_dim(self.dim)
        object.__setattr__(self, "field", dict(self.field))
        object.__setattr__(self, "dim", int(self.dim))
        checked = self.at(1.0)
        object.__setattr__(self, "classes", checked.classes)
        object.__setattr__(self, "grid", grid_of(checked.noise))

    @property
    def proved(self) -> bool:
        """Whether the field's rate is proved; otherwise somebody vouches for it."""
        return bool(self.field["proved"])

    @property
    def norm(self) -> str:
        """Radii are Euclidean."""
        return "l2"

    @property
    def is_random(self) -> bool:
        """Its bound may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """About: the field's base, if it has one."""
        base = self.field.get("base")
        return float(base) if base is not None and is_number(base) else 0.0

    def at(self, sigma: float) -> Elastic:
        """The rule at an input with this noise."""
        rate, jitter = float(self.field["rate"]), float(self.field["jitter"]) + ROUNDING
        return Elastic(Gaussian(sigma, self.grid), self.classes, rate=rate, jitter=jitter, dim=self.dim)

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """The noise of the input first, then as with constant noise."""
        sigma = yield from own_noise(SIGMA)
        found = yield from self.at(sigma).certifying(n0=n0, n=n, alpha=alpha, sampling=sampling)
        return replace(found, stages=(Stage("", Role.SIGMA, sigma, (), 0), *found.stages))

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The noise of the input first, then as with constant noise."""
        sigma = yield from own_noise(SIGMA)
        found = yield from self.at(sigma).predicting(n=n, alpha=alpha)
        return replace(found, stages=(Stage("", Role.SIGMA, sigma, (), 0), *found.stages))

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous samples would certify with constant noise."""
        self.at(1.0).check_certify(n0=n0, n=n, alpha=alpha, sampling=sampling)

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous samples would predict."""
        self.at(1.0).check_predict(n=n, alpha=alpha)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What n unanimous samples prove at most, whatever noise the field gives the input.

        At a radius R the noise may change by the factor e^(rate R + jitter), and beyond the sharp limits of such
        factors even an adversary at distance 0 is not certified. More noise at the input brings it as near to that
        as one likes, so the bound is sharp. inf at rate 0: there the radius grows with the noise without end.
        """
        lower = table.lower(n, n, sampling.last_level(n, alpha))
        if lower <= 0.5:
            return 0.0
        rate, limits = float(self.field["rate"]), sharp_ratio_limits(lower, self.dim)
        change = min(-log(limits.least), log(limits.greatest)) * LIMITS_ERROR
        return max(0.0, change - float(self.field["jitter"])) / rate if rate else inf

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        plain = {"scheme": "semi-elastic", "classes": self.classes, "dim": self.dim, "field": dict(self.field)}
        return plain if self.grid is None else {**plain, "grid": self.grid}


def _is_nearest(plain: Mapping[str, Any]) -> bool:
    whole = is_whole(plain["k"]) and is_whole(plain["points"]) and 1 <= plain["k"] <= plain["points"]
    return whole and is_number(plain["base"]) and is_number(plain["offset"]) and isinstance(plain["train"], str)


def _assumes(plain: Mapping[str, Any]) -> tuple[str, ...]:
    if plain["field"].get("proved"):
        return ()
    return ("sigma(x) changes no faster than the stated rate, for which the user vouches",)


register(
    Entry(
        "semi-elastic",
        summary="noise from a field sigma(x) that changes at a known rate (Sukenik et al. 2022)",
        fields=("classes", "dim", "field"),
        optional=("grid",),
        from_dict=lambda plain, part: SemiElasticRule(
            plain["field"], plain["dim"], plain["classes"], plain.get("grid")
        ),
        assumes=_assumes,
        not_checked="that each sigma is the field's at its input (--data shows it, with the field's training images)",
    )
)
