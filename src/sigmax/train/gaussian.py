"""Gaussian augmentation: train on the noise that the smoothed classifier will vote on.

Source: Cohen, Rosenfeld & Kolter (2019), "Certified Adversarial Robustness via Randomized Smoothing", Sec. 3.3.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError
from sigmax.train.method import Batch, Method, Score


@dataclass(frozen=True)
class Gaussian(Method):
    """Cross-entropy on inputs with noise of standard deviation `sigma`, in pixels; 0 trains without noise."""

    name: ClassVar[str] = "gaussian"
    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise RequestError(f"sigma must be finite and not negative, got {self.sigma!r}")

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        logits = model(add_noise(batch.pixels, self.sigma, batch.generator))
        loss = functional.cross_entropy(logits, batch.targets)
        return Score(loss, (logits.argmax(dim=1) == batch.targets).float().mean())


def add_noise(pixels: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """The pixels with fresh noise on them, not clamped: the theorem is about x + noise, not about images."""
    noise = torch.randn(pixels.shape, device=pixels.device, dtype=pixels.dtype, generator=generator)
    return pixels + sigma * noise
