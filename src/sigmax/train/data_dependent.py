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

import math
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.consistency import Consistency
from sigmax.train.gaussian import Gaussian
from sigmax.train.macer import Macer
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.noise_attack import attacking, gradient, in_full
from sigmax.train.noisy import add_to_copies, by_copy, standard_noise
from sigmax.train.smoothadv import SmoothAdv
from sigmax.train.smoothmix import SmoothMix
from sigmax.train.stability import Stability

COMPOSES_WITH = (Gaussian, SmoothAdv, Macer, Consistency, SmoothMix, Stability)  # learn under any noise of an input
LEAST, MOST = 0.02, 0.98  # beyond, Phi^-1 is so steep that a few noises say nothing of it


@dataclass
class DataDependent(Method):
    """The method `inner` with a noise for each input.

    A visit costs steps * noises more passes of every image, each way. What is remembered is sigma_x of every input.
    """

    name: ClassVar[str] = "data-dependent"
    inner: Method  # its sigma is where every sigma_x starts
    step: float = 1e-4  # pixels a unit of dR/dsigma
    steps: int = 1  # gradient steps a visit
    noises: int = 1  # n
    plain_epochs: int = 0  # epochs at the start in which the inner method trains alone
    lowest: float = 0.5  # of the range, in units of the inner sigma
    highest: float = 2.0
    sigmas: Tensor = field(init=False, repr=False, compare=False)  # (N,) in pixels

    def __post_init__(self) -> None:
        if not isinstance(self.inner, COMPOSES_WITH):
            known = ", ".join(method.name for method in COMPOSES_WITH)
            given = getattr(self.inner, "name", self.inner)
            raise RequestError(
                f"data-dependent training is for methods that learn under any noise of an input ({known}), and "
                f"{given!r} does not; choose one of those"
            )
        self.sigma, self.copies = self.inner.sigma, self.inner.copies
        _check(0 < self.sigma < math.inf, "the inner sigma", "positive and finite", self.sigma)
        _check(0 < self.step < math.inf, "step", "positive and finite", self.step)
        for name, least in (("steps", 1), ("noises", 1), ("plain_epochs", 0)):
            value = getattr(self, name)
            _check(type(value) is int and value >= least, name, f"a whole number of at least {least}", value)
        _check(0 < self.lowest <= 1, "lowest", "above 0 and at most 1", self.lowest)
        _check(1 <= self.highest < math.inf, "highest", "at least 1 and finite", self.highest)
        self.sigmas = torch.empty(0)

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """Every input starts with the inner sigma."""
        if epoch == 0:
            self.sigmas = examples.pixels.new_full((len(examples),), self.sigma)
        self.sigmas = self.sigmas.to(examples.pixels.device)
        self.inner.begin_epoch(model, examples, epoch)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The inner method's, with the noise of each input once it was moved."""
        if batch.epoch < self.plain_epochs:
            return self.inner.score(model, batch)
        sigma = self.moved(model, batch.pixels, self.sigmas[batch.indices], batch.generator)
        self.sigmas[batch.indices] = sigma
        return self.inner.score(model, replace(batch, sigma=sigma))

    def moved(self, model: nn.Module, pixels: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
        """The noise of each of the pixels after a visit, (n,), within the range."""
        with attacking(model):
            for _ in range(self.steps):
                noise = standard_noise(pixels, self.noises, generator)
                slope = gradient(partial(radii, model, pixels, noise), sigma)
                sigma = (sigma + self.step * slope).clamp(self.lowest * self.sigma, self.highest * self.sigma)
        return sigma

    def summary(self) -> dict[str, float]:
        """What became of the noise, over all inputs, in pixels."""
        spread, mean = torch.std_mean(self.sigmas.double(), correction=0)
        least, most = self.sigmas.aminmax()
        told = {"sigma_mean": mean, "sigma_spread": spread, "sigma_least": least, "sigma_most": most}
        return {name: value.item() for name, value in told.items()}

    def images(self, batch: int) -> int:
        """As the inner method has it."""
        return self.inner.images(batch)

    def order(self, count: int, epoch: int, generator: torch.Generator) -> Tensor:
        """As the inner method has it."""
        return self.inner.order(count, epoch, generator)

    def per_example(self) -> tuple[Tensor, ...]:
        """The noise of every input, and what the inner method remembers."""
        return (self.sigmas, *self.inner.per_example())

    def plan(self) -> dict[str, Any]:
        """The inner method with its own plan."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "inner"}
        return {"name": self.name, **told, "inner": self.inner.plan()}

    def state_dict(self) -> dict[str, Any]:
        """The noise of every input, and what the inner method remembers."""
        return {"sigmas": self.sigmas.clone(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what was remembered."""
        self.sigmas = state["sigmas"].clone()
        self.inner.load_state_dict(state["inner"])


def radii(model: nn.Module, pixels: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
    """R(sigma) of each of the pixels, (n,); standard noise is (copies * n, C, H, W), copy-major."""
    copies = len(noise) // len(pixels)
    logits = by_copy(in_full(model(add_to_copies(pixels, sigma, noise))), copies)
    top = logits.softmax(dim=2).mean(dim=0).topk(2, dim=1).values.clamp(LEAST, MOST)
    quantiles: Tensor = torch.special.ndtri(top)
    return sigma / 2 * (quantiles[:, 0] - quantiles[:, 1])


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
