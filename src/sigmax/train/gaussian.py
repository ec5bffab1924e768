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
from sigmax.train.noisy import noisy_copies
from sigmax.train.partial import later


@dataclass(frozen=True)
class Gaussian(Method):
    """Cross-entropy on inputs with noise of standard deviation `sigma`, in pixels; 0 trains without noise."""

    name: ClassVar[str] = "gaussian"
    sigma: float
    copies: int = later(1)  # noisy copies of each image

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise RequestError(f"sigma must be finite and not negative, got {self.sigma!r}")
        if not (type(self.copies) is int and self.copies >= 1):
            raise RequestError(f"copies must be a whole number of at least 1, got {self.copies!r}")

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of the noisy copies."""
        logits = model(noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator))
        targets = batch.targets.repeat(self.copies)
        loss = functional.cross_entropy(logits, targets)
        return Score(loss, (logits.argmax(dim=1) == targets).float().mean())


def add_noise(pixels: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """The pixels with fresh noise on them, not clamped."""
    return noisy_copies(pixels, sigma, 1, generator)
