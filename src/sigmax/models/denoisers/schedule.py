"""Noise schedules of diffusion models, and the timestep whose noise is a given sigma.

# beta_t: share of noise added in step t; abar_t = product of (1 - beta_s) up to t; u = 2x - 1, pixels on [-1, 1]

A diffusion model knows images as sqrt(abar_t) * u + sqrt(1 - abar_t) * eps. That is sqrt(abar_t) times an image
with noise of sqrt((1 - abar_t) / abar_t), which on the scale of pixels in [0, 1] is half as much.

Sources: Ho et al. (2020), "Denoising Diffusion Probabilistic Models" (linear); Nichol & Dhariwal (2021), "Improved
Denoising Diffusion Probabilistic Models", Eq. 17 (cosine); Carlini et al. (2023), "(Certified!!) Adversarial
Robustness for Free!", Algorithm 1 (the timestep).
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from sigmax.config.validation import Probability, options
from sigmax.errors import RequestError

Kind = Literal["linear", "scaled-linear", "cosine"]
_DIFFUSERS: Mapping[str, Kind] = {"linear": "linear", "scaled_linear": "scaled-linear", "squaredcos_cap_v2": "cosine"}
_LARGEST_BETA = 0.999  # where the cosine schedule is cut off, in the paper and everywhere since
_OFFSET = 0.008  # of the cosine schedule, so that its first steps are not too small


class Moments(NamedTuple):
    """Steps of a schedule, (n,): their numbers, and how much of the image and of the noise each holds."""

    timestep: Tensor
    signal: Tensor  # sqrt(abar_t)
    noise: Tensor  # sqrt(1 - abar_t)


@options
class Schedule:
    """How much noise each of `steps` timesteps holds. Betas run from `first` to `last`; a cosine has its own."""

    kind: Kind
    steps: Annotated[int, Field(ge=2)]
    first: Probability = 1e-4
    last: Probability = 0.02

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise RequestError(
                f"betas of a noise schedule rise within (0, 1); got first={self.first!r}, last={self.last!r}"
            )

    @classmethod
    def linear(cls, steps: int = 1000) -> Self:
        """The linear schedule with betas scaled so that any number of steps ends in the same noise."""
        return cls("linear", steps, 1e-4 * 1000 / steps, 0.02 * 1000 / steps)

    @classmethod
    def cosine(cls, steps: int = 4000) -> Self:
        """The cosine schedule."""
        return cls("cosine", steps)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The schedule that the config of a diffusers scheduler describes."""
        kind = config.get("beta_schedule", "linear")
        if kind not in _DIFFUSERS:
            raise RequestError(
                f"the scheduler's beta_schedule is {kind!r}; known are: {', '.join(_DIFFUSERS)}. "
                "Use a model trained on one of these"
            )
        for unusual in ("trained_betas", "rescale_betas_zero_snr"):
            given = config.get(unusual)
            if given is not None and given is not False:
                raise RequestError(f"a scheduler with {unusual} is not supported; use a model trained without it")
        steps = int(config.get("num_train_timesteps", 1000))
        return cls(_DIFFUSERS[kind], steps, float(config.get("beta_start", 1e-4)), float(config.get("beta_end", 0.02)))

    @cached_property
    def alphas_bar(self) -> NDArray[np.float64]:
        """abar_t of every timestep."""
        return np.asarray(np.cumprod(1 - self._betas()))

    @cached_property
    def sigmas(self) -> NDArray[np.float64]:
        """The noise of every timestep, of pixels in [0, 1]: strictly rising."""
        return np.sqrt((1 - self.alphas_bar) / self.alphas_bar) / 2

    @cached_property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest noise that the schedule knows."""
        return float(self.sigmas[0]), float(self.sigmas[-1])

    def check(self, sigma: float | Tensor) -> None:
        """Raise unless the noise, of every image, lies within the schedule's range."""
        low, high = (float(sigma.min()), float(sigma.max())) if isinstance(sigma, Tensor) else (sigma, sigma)
        least, most = self.range
        if not (least <= low and high <= most):
            wrong = low if not least <= low else high
            raise RequestError(
                f"sigma must lie within the noise that the diffusion model was trained on, {least:.6g} to "
                f"{most:.6g} for pixels in [0, 1] ({self.kind} schedule of {self.steps} steps); got {wrong:g}. "
                "Choose another sigma, or another denoiser"
            )

    def _betas(self) -> NDArray[np.float64]:
        if self.kind == "linear":
            return np.linspace(self.first, self.last, self.steps)
        if self.kind == "scaled-linear":
            return np.asarray(np.linspace(self.first**0.5, self.last**0.5, self.steps) ** 2)
        times = np.arange(self.steps + 1) / self.steps
        left = np.cos((times + _OFFSET) / (1 + _OFFSET) * np.pi / 2) ** 2
        return np.asarray(np.minimum(1 - left[1:] / left[:-1], _LARGEST_BETA))

    def describe(self) -> dict[str, Any]:
        """The schedule in plain values: `Schedule(**description)` is the same one."""
        return asdict(self)


def moments(alphas_bar: Tensor, sigma: Tensor) -> Moments:
    """The first timesteps with at least the noise of each image, (n,), by a schedule's abar_t."""
    known = ((1 - alphas_bar) / alphas_bar).sqrt() / 2
    timesteps = torch.searchsorted(known, sigma.double().contiguous()).clamp(max=len(known) - 1)
    abar = alphas_bar[timesteps]
    return Moments(timesteps, abar.sqrt().to(sigma.dtype), (1 - abar).sqrt().to(sigma.dtype))
