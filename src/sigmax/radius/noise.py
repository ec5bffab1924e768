"""Noise as a theorem sees it: what is left of a distribution once its score is known.

# p_c(x) probability of class c under the noise at x; z_c(x) its score, 1-Lipschitz in x in the noise's norm

Every theorem of routing and cascades uses this one property. The sampling of the noise lives in `sigmax.noise`. A
distribution is found by its name: its class is registered here, its sampler there.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import ndtri

from sigmax.errors import RequestError
from sigmax.numbers import is_whole
from sigmax.radius.normal import EPS, ROUNDING

LEAST_SIGMA = 1e-30  # 32-bit floats end beyond it and its inverse
FINEST_GRID = 2**16 - 1  # of 16-bit images


class Noise(Protocol):
    """A noise distribution with a score that is 1-Lipschitz in the norm `norm`."""

    name: ClassVar[str]
    norm: ClassVar[str]

    @property
    def sigma(self) -> float:
        """The level of the noise, in units of the input: what a record calls sigma, whatever the distribution."""

    def margin(self, high: float, low: float) -> float:
        """z(high) - z(low), rounded down; 0 where it is not positive.

        An input must move at least this far before a probability of at least `high` can fall to `low`, or one of
        at most `low` can rise to `high`.
        """

    def lead(self, lower: float, upper: float | None = None) -> float:
        """z_A - z_B for p_A >= lower and p_B <= min(upper, 1 - lower), rounded down; 0 where it is not positive."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation sigma: z_c = sigma * Phi^-1(p_c) is 1-Lipschitz in l2.

    Samples are scaled by sigma as a 32-bit float, which may be a little less; scores use the smaller of the two.
    `grid`: inputs are multiples of 1 / grid (255 for 8-bit images), and so is the noise, rounded to them: the base
    classifier is f after rounding, and no rounding depends on the input. None: noise is added in 32-bit floats, whose
    rounding depends on the input, so a base classifier that reads it could be certified falsely.
    Source: Salman et al. (2019), App. A; the grid: Voracek & Hein (2023).
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"
    sigma: float
    grid: int | None = None

    def __post_init__(self) -> None:
        sigma = self.sigma
        if isinstance(sigma, bool) or not isinstance(sigma, int | float | np.number):
            raise RequestError(f"sigma must be a positive number (noise in pixel units, [0, 1]); got {sigma!r}")
        if not LEAST_SIGMA < sigma < 1 / LEAST_SIGMA:  # so written, NaN is refused too
            raise RequestError(f"sigma must be a positive number (noise in pixel units, [0, 1]); got {sigma!r}")
        object.__setattr__(self, "sigma", float(sigma))  # numpy's numbers would not survive a file
        if self.grid is None:
            return
        if not is_whole(self.grid) or not 1 <= self.grid <= FINEST_GRID:
            raise RequestError(
                f"grid must be a whole number of steps from 0 to 1, at most {FINEST_GRID}; got {self.grid!r}. 8-bit "
                "images have 255; leave it out to add noise in floats"
            )
        object.__setattr__(self, "grid", int(self.grid))

    def margin(self, high: float, low: float) -> float:
        """Sigma * (Phi^-1(high) - Phi^-1(low)), rounded down, or 0."""
        return _margin(self.sigma, high, low)

    def lead(self, lower: float, upper: float | None = None) -> float:
        """Sigma * (Phi^-1(lower) - Phi^-1(min(upper, 1 - lower))), rounded down, or 0."""
        z = _below(lower)
        rival = -z  # Phi^-1(1 - lower), without the rounding of 1 - lower
        return _scaled(self.sigma, z, rival if upper is None else min(rival, _above(upper)))


Make = Callable[[Any], Noise]  # from a level that was not checked
_noises: dict[str, Make] = {}
_levels: dict[str, str] = {}  # what the level is called, where that is not sigma
LEVELS = ("sigma", "scale")  # what it may be called


def register(name: str, make: Make, *, level: str = "sigma") -> None:
    """Make a noise known by its name, so that plans and system folders can name it; `make` checks its level.

    level: what a description calls that: "sigma" where it is a standard deviation, else "scale".
    """
    if _noises.setdefault(name, make) is not make:
        raise RequestError(f"a noise {name!r} is registered already; choose another name")
    if level not in LEVELS:
        raise RequestError(f"the level of a noise is called {' or '.join(LEVELS)}; got {level!r}")
    _levels[name] = level


def check_sampled(noise: object) -> Noise:
    """The noise, if it is of a registered distribution: confidence bounds are of samples, and a plan names it.

    Splitting noise is of none. Its offsets have an order, and the first of them say nothing of the rest.
    """
    if isinstance(noise, type) or getattr(noise, "name", None) not in _noises:
        raise RequestError(
            "noise must be a distribution such as sx.noise.Gaussian(0.5) or sx.noise.Uniform(0.5), or one that is "
            f"registered as these are; got {noise!r:.80}. For splitting noise use sx.Splitting(model, scale=...)"
        )
    return noise  # type: ignore[return-value]  # as whoever registered it says


def noise_from(description: Mapping[str, object]) -> Noise:
    """The noise of a description; a file is not trusted, so everything is checked."""
    name = description.get("noise")
    if not isinstance(name, str) or name not in _noises:
        raise RequestError(f"unknown noise {name!r:.80}; this installation of sigmax knows: {', '.join(_noises)}")
    surplus = [level for level in LEVELS if level in description and level != _levels[name]]
    if surplus:
        raise RequestError(f"the noise {name!r:.80} has a {_levels[name]} and no {surplus[0]}; the file is damaged")
    if "grid" not in description:
        return _noises[name](description.get(_levels[name]))
    if name != Gaussian.name:
        raise RequestError(
            f"the noise {name!r:.80} has no grid: only Gaussian noise is added in whole steps. In l1 Splitting "
            "certifies 8-bit images exactly"
        )
    return Gaussian(description.get("sigma"), description["grid"])  # type: ignore[arg-type]  # it checks them


def described(noise: Noise) -> dict[str, Any]:
    """The noise as plain data, from which `noise_from` makes it again."""
    level, grid = _levels.get(noise.name, "sigma"), grid_of(noise)
    return {"noise": noise.name, level: noise.sigma, **({} if grid is None else {"grid": grid})}


def level_in(description: Mapping[str, Any]) -> tuple[str, float] | None:
    """The level of the noise in a scheme's description, and what it is called; None where it has not one noise."""
    return next(((name, float(description[name])) for name in LEVELS if name in description), None)


def noise_in_words(description: Mapping[str, Any]) -> str | None:
    """The noise in a scheme's description in words: 'sigma 0.5', 'uniform 0.5'; None where it has not one noise."""
    found = level_in(description)
    return None if found is None else f"{found[0] if found[0] == 'sigma' else description['noise']} {found[1]:g}"


def level_word(noise: Noise) -> str:
    """What stands before the level in such words: 'sigma', or the noise's name."""
    return "sigma" if _levels.get(noise.name, "sigma") == "sigma" else noise.name


def grid_of(noise: Noise) -> int | None:
    """The grid that a noise declares; one that declares none is added in floats."""
    grid: int | None = getattr(noise, "grid", None)
    return grid


register(Gaussian.name, Gaussian)


@lru_cache(maxsize=2**16)  # the same few bounds return while votes come in
def _margin(sigma: float, high: float, low: float) -> float:
    return _scaled(sigma, _below(high), _above(low))


def _scaled(sigma: float, high: float, low: float) -> float:
    return usable_level(sigma) * (high - low) * (1 - 4 * EPS) if high > low else 0.0


@lru_cache(maxsize=1024)
def usable_level(sigma: float) -> float:
    """The level that a score may use: samples are scaled by a 32-bit float, which may be a little less."""
    return min(sigma, float(np.float32(sigma)))


@lru_cache(maxsize=2**16)  # the same few bounds return while votes come in
def _below(p: float) -> float:
    z = _quantile(p)
    return z * (1 - math.copysign(ROUNDING, z))


@lru_cache(maxsize=2**16)
def _above(p: float) -> float:
    z = _quantile(p)
    return z * (1 + math.copysign(ROUNDING, z))


def _quantile(p: float) -> float:
    if not 0 <= p <= 1:
        raise RequestError(f"expected a probability from 0 to 1, got {p!r}; pass a confidence bound")
    return float(ndtri(p))
