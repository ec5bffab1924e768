"""Noise augmentation: train on the noise that the smoothed classifier will vote on, usually Gaussian.

Source: Cohen, Rosenfeld & Kolter (2019), "Certified Adversarial Robustness via Randomized Smoothing", Sec. 3.3.
"""

from typing import Annotated, ClassVar

from torch import nn
from torch.nn import functional

from sigmax.config.validation import Count, Weight, about, options
from sigmax.train.loop.noisy import NoiseName, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.registry import on_cifar10, register


@register(summary="Cross-entropy on noisy images.", presets=on_cifar10())
@options
class GaussianTraining(Method):
    """Cross-entropy on inputs with noise of level `sigma`, in pixels; 0 trains without noise."""

    name: ClassVar[str] = "gaussian"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Weight, about("noise in pixels; 0 trains without")]
    copies: Annotated[Count, about("noisy copies of each image")] = 1
    noise: Annotated[NoiseName, about("distribution of the noise")] = "gaussian"

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of the noisy copies."""
        logits = model(noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator, self.noise))
        targets = batch.targets.repeat(self.copies)
        return Score.of(functional.cross_entropy(logits, targets), logits, targets)
