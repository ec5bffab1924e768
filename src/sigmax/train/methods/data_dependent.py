"""Data-dependent training: every training input has a noise level of its own, which follows its radius uphill.

# x input; sigma_x its noise; e_1 .. e_n standard noises, fresh for every step; f softmax
# p(sigma) = (1/n) sum_j f(x + sigma e_j); p_A >= p_B its largest two, kept within [0.02, 0.98]

    R(sigma) = sigma / 2 * (Phi^-1(p_A) - Phi^-1(p_B))
    at each visit, `steps` times:  sigma_x <- sigma_x + step * dR/dsigma(sigma_x), then clamped to the range

All sigma_x start at the inner method's sigma and are kept from epoch to epoch; the inner method then trains on x
with noise sigma_x. The derivative passes through the network, for the noise sigma * e moves with sigma. p_A is of
the class that the network prefers, right or wrong. The network is in eval mode meanwhile, so that an input's noise
does not depend on its neighbours; the authors' code leaves it in training mode. Their paper has no range.
Source: Alfarra et al. (2022), "Data Dependent Randomized Smoothing", Algorithms 1 and 2; [0.02, 0.98] from App. A.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from sigmax.config.validation import Count, Positive, Whole, about, options
from sigmax.errors import RequestError
from sigmax.schemes.sigma_search import soft_radii
from sigmax.train.loop.noisy import add_to_copies, by_copy, standard_noise
from sigmax.train.methods.base import Batch, Examples, Method, Score
from sigmax.train.methods.noise_attack import attacking, gradient, in_full
from sigmax.train.methods.own_noise import OwnNoise
from sigmax.train.methods.registry import refuse_unknown

DATA_DEPENDENT = "data-dependent"


@options(frozen=False)
class DataDependent(OwnNoise):
    """The method `inner` with a noise for each input. A visit costs steps * noises more passes, each way."""

    name: ClassVar[str] = DATA_DEPENDENT
    inner: Annotated[Method, about("the method; its sigma is where every sigma_x starts")]
    step: Annotated[Positive, about("pixels for each unit of dR/dsigma")] = 1e-4
    steps: Annotated[Count, about("gradient steps at each visit")] = 1
    noises: Annotated[Count, about("n")] = 1
    plain_epochs: Annotated[Whole, about("epochs at the start in which the inner method trains alone")] = 0
    lowest: Annotated[float, Field(gt=0, le=1, description="of the range, in units of the inner sigma")] = 0.5
    highest: Annotated[float, Field(ge=1, description="of the range, in units of the inner sigma")] = 2.0
    sigmas: Tensor = field(init=False, repr=False, compare=False)  # (N,) in pixels

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sigma > 0:
            raise RequestError(f"inner.sigma: expected a number above 0, got {self.sigma!r}")

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """Every input starts with the inner sigma."""
        if epoch == 0:
            self.sigmas = torch.full((len(examples),), self.sigma, device=examples.device)
        super().begin_epoch(model, examples, epoch)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The inner method's, with the noise of each input once it was moved."""
        if batch.epoch < self.plain_epochs:
            return self.inner.score(model, batch)
        sigma = self.moved(model, batch.pixels, self.sigmas[batch.indices], batch.generator)
        self.sigmas[batch.indices] = sigma
        return super().score(model, batch)

    def moved(self, model: nn.Module, pixels: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
        """The noise of each of the pixels after a visit, (n,), within the range."""
        with attacking(model):
            for _ in range(self.steps):
                noise = standard_noise(pixels, self.noises, generator)
                slope = gradient(partial(radii, model, pixels, noise), sigma)
                sigma = (sigma + self.step * slope).clamp(self.lowest * self.sigma, self.highest * self.sigma)
        return sigma

    def per_example(self) -> tuple[Tensor, ...]:
        """The noise of every input, and what the inner method remembers."""
        return (self.sigmas, *self.inner.per_example())

    def plan(self) -> dict[str, Any]:
        """The inner method with its own plan."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "inner"}
        return {"name": self.name, **own, "inner": self.inner.plan()}


def with_moving_noise(inner: Method, hyper: Mapping[str, Any] | None = None) -> DataDependent:
    """The method with a noise of its own for each input, which moves as training goes on."""
    refuse_unknown(DataDependent, hyper or {})
    return DataDependent(inner, **(hyper or {}))


def radii(model: nn.Module, pixels: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
    """R(sigma) of each of the pixels, (n,); standard noise is (copies * n, C, H, W), copy-major."""
    copies = len(noise) // len(pixels)
    logits = by_copy(in_full(model(add_to_copies(pixels, sigma, noise))), copies)
    return soft_radii(logits.softmax(dim=2).mean(dim=0), sigma)
