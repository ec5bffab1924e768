"""The rule of noise chosen for each input by itself, made sound by a memory. No torch."""

# sigma_x the noise that a search found for the input x; a ball: an input's class and radius, as it was answered

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.radius.memory import Deciding, Settled, settle
from sigmax.radius.noise import grid_of
from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage, leading
from sigmax.rules.procedure import Procedure, SigmaRequest, own_noise
from sigmax.rules.registry import Entry, register
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

SIGMA = SigmaRequest("")
MOST_ERROR = 1e-6  # of a distance, relatively; far above what any dimension in use makes

Search = Literal["ascent", "signs", "grid"]
Ball = tuple[int, float]  # class and radius


@dataclass(frozen=True)
class MemorizedRule:
    """Each input is certified at a noise of its own; a memory then sees to it that no two answers contradict.

    By itself the radius at sigma_x proves nothing: neighbours have other noise. `certifying` therefore ends without
    a claim (`Outcome.UNREMEMBERED`); the claim is made by `settled`, with the memory. Within that memory it holds
    with probability at least 1 - alpha: see `radius.memory`. sigma0: where the search begins; least, most: its
    range; search, steps, noises, step: see `sigma_search`.
    Source: Alfarra et al. (2022), "Data dependent randomized smoothing".
    """

    sigma0: float
    least: float
    most: float
    classes: int
    search: Search = "ascent"
    steps: int = 50
    noises: int = 8
    step: float = 0.02
    grid: int | None = None  # of its noise: see `Gaussian`

    def __post_init__(self) -> None:
        for name in ("sigma0", "least", "most"):
            object.__setattr__(self, name, SmoothedRule.gaussian(getattr(self, name), 2).sigma)
        if not self.least <= self.sigma0 <= self.most:
            raise RequestError(
                f"expected least <= sigma0 <= most, got {self.least:g}, {self.sigma0:g} and {self.most:g}; "
                "widen the range"
            )
        if self.search not in get_args(Search):
            raise RequestError(f"search must be one of {', '.join(get_args(Search))}; got {self.search!r}")
        for name, highest in (("steps", 100_000), ("noises", 128)):
            value = getattr(self, name)
            if not is_whole(value) or not 1 <= value <= highest:
                raise RequestError(f"{name} must be a whole number from 1 to {highest:,}; got {value!r}")
            object.__setattr__(self, name, int(value))
        if not (is_number(self.step) and 0 < self.step < 1e6):
            raise RequestError(f"step must be a positive number; got {self.step!r}")
        object.__setattr__(self, "step", float(self.step))
        checked = SmoothedRule.gaussian(1.0, self.classes, grid=self.grid)
        object.__setattr__(self, "classes", checked.classes)
        object.__setattr__(self, "grid", grid_of(checked.noise))

    @property
    def norm(self) -> str:
        """Radii are Euclidean."""
        return "l2"

    @property
    def is_random(self) -> bool:
        """Its bounds may be wrong by chance."""
        return True

    @property
    def largest_noise(self) -> float:
        """The end of the range."""
        return self.most

    def at(self, sigma: float) -> SmoothedRule:
        """The smoothed classifier that an input with this noise is certified by."""
        if not self.least <= sigma <= self.most:
            raise RequestError(f"the noise {sigma:g} of the input is outside of {self.least:g} to {self.most:g}")
        return SmoothedRule.gaussian(sigma, self.classes, grid=self.grid)

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """The votes at the input's own noise; nothing is claimed before the memory was asked."""
        sigma = yield from own_noise(SIGMA)
        found = yield from self.at(sigma).certifying(n0=n0, n=n, alpha=alpha, sampling=sampling)
        outcome = found.outcome if found.predicted is None else Outcome.UNREMEMBERED
        stages = (Stage("", Role.SIGMA, sigma, (), 0), *found.stages)
        return replace(found, predicted=None, radius=0.0, outcome=outcome, stages=stages)

    def proposed(self, certificate: Certificate) -> tuple[int | None, float]:
        """Class and radius at the input's own noise, which the memory is asked about."""
        if certificate.outcome is not Outcome.UNREMEMBERED:
            return None, 0.0
        by_role = {stage.role: stage for stage in certificate.stages}
        return leading(by_role[Role.SELECTION].counts)[0], by_role[Role.ESTIMATION].radius or 0.0

    def settled(self, certificate: Certificate, found: Settled, balls: Deciding, error: float) -> Certificate:
        """The claim that agrees with the memory, which goes into the record with the balls that decided."""
        memory = Stage("", Role.MEMORY, 0.0, (), 0, radius=found.radius, balls=balls, error=error)
        stages = (*certificate.stages, memory)
        if found.label is None:
            return replace(certificate, stages=stages)
        proposed = self.proposed(certificate)[1]
        limited = certificate.limited_by if found.radius == proposed else memory.name
        # A radius of 0 claims nothing beyond the input itself.
        outcome = Outcome.REMEMBERED if found.radius else Outcome.CROWDED
        claimed = found.label if found.radius else None
        return replace(
            certificate, predicted=claimed, radius=found.radius, outcome=outcome, stages=stages, limited_by=limited
        )

    def replayed(self, certificate: Certificate, stages: Sequence[Stage], stored: Sequence[Ball]) -> Certificate:
        """What the recorded balls make of replayed votes; `stored` are the memory's answers before this one."""
        memory = next((stage for stage in stages if stage.role is Role.MEMORY), None)
        if memory is None:
            raise RequestError("the record does not say what the memory made of it")
        error = memory.error if memory.error is not None else -1.0
        if not 0 <= error <= MOST_ERROR:
            raise RequestError(f"the relative error of distances must be from 0 to {MOST_ERROR}; got {memory.error}")
        places = [place for place, _ in memory.balls]
        if any(place >= len(stored) for place in places):
            raise RequestError(f"ball {max(places)} had not been stored: there were {len(stored)} before this input")
        balls = [stored[place] for place in places]
        found = settle(
            *self.proposed(certificate),
            [distance for _, distance in memory.balls],
            [label for label, _ in balls],
            [radius for _, radius in balls],
            error=error,
        )
        return self.settled(certificate, found, memory.balls, error)

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class at the input's own noise; the scheme then asks its memory."""
        sigma = yield from own_noise(SIGMA)
        found = yield from self.at(sigma).predicting(n=n, alpha=alpha)
        return replace(found, stages=(Stage("", Role.SIGMA, sigma, (), 0), *found.stages))

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless n unanimous samples would certify."""
        self.at(self.most).check_certify(n0=n0, n=n, alpha=alpha, sampling=sampling)

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless n unanimous samples would predict."""
        self.at(self.most).check_predict(n=n, alpha=alpha)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What n unanimous samples prove at the most noise; balls of the memory are no larger."""
        return self.at(self.most).largest_radius(n=n, alpha=alpha, sampling=sampling)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data."""
        return {
            "scheme": "memorized",
            "sigma0": self.sigma0,
            "least": self.least,
            "most": self.most,
            "classes": self.classes,
            "search": self.search,
            "steps": self.steps,
            "noises": self.noises,
            "step": self.step,
            **({} if self.grid is None else {"grid": self.grid}),
        }


_FIELDS = ("sigma0", "least", "most", "classes", "search", "steps", "noises", "step")

register(
    Entry(
        "memorized",
        summary="noise chosen for each input, made sound by a memory of earlier answers (Alfarra et al. 2022)",
        fields=_FIELDS,
        optional=("grid",),
        from_dict=lambda plain, part: MemorizedRule(**{name: plain[name] for name in _FIELDS}, grid=plain.get("grid")),
        assumes=lambda plain: ("later inputs are answered with the same memory, in the order of the run",),
        composable=False,
        not_checked="the distances between inputs (--data shows them); that each sigma is what the search found, on "
        "which no radius rests (--data with --system shows it)",
        with_earlier=MemorizedRule.replayed,
    )
)
