"""Methods that train another method with a noise of its own for each input."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.methods.base import Batch, Examples, Method, Score
from sigmax.train.methods.registry import known


class OwnNoise(Method):
    """The method `inner`, which must learn under any noise of an input; subclasses decide the noises."""

    inner: Method
    sigmas: Tensor  # (N,) in pixels; empty before the first epoch

    def __post_init__(self) -> None:
        if not self.inner.any_noise:
            fit = ", ".join(name for name, method in known().items() if method.kind.any_noise)
            raise RequestError(
                f"{self.name} training is for methods that learn under any noise of an input ({fit}), and "
                f"{self.inner.name!r} does not; choose one of those"
            )
        if self.inner.noise != "gaussian":
            raise RequestError(
                f"{self.name} training moves the sigma of Gaussian noise; got {self.inner.noise!r} noise"
            )
        self.sigma, self.copies = self.inner.sigma, self.inner.copies
        self.sigmas = torch.empty(0)

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """As the inner method has it, once the noises are on the device."""
        self.sigmas = self.sigmas.to(examples.device)
        self.inner.begin_epoch(model, examples, epoch)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The inner method's, with the noise of each input."""
        return self.inner.score(model, replace(batch, sigma=self.sigmas[batch.indices]))

    def images(self, batch: int) -> int:
        """As the inner method has it."""
        return self.inner.images(batch)

    def order(self, count: int, epoch: int, generator: torch.Generator) -> Tensor:
        """As the inner method has it."""
        return self.inner.order(count, epoch, generator)

    def state_dict(self) -> dict[str, Any]:
        """The noise of every input, and what the inner method remembers."""
        return {"sigmas": self.sigmas.clone(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what was remembered."""
        self.sigmas = state["sigmas"].clone()
        self.inner.load_state_dict(state["inner"])
