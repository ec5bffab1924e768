"""SmoothAdv: train where the smoothed classifier is weakest, within a ball around each input.

# x input; y its class; f softmax; e_1 .. e_m noises, drawn once and then fixed; d the perturbation, from d = 0

    attack, T times:  d <- d + (2 eps / T) g / |g|_2,    g = gradient in d of -log (1/m) sum_i f(x + d + e_i)_y,
                      then x + d is clamped to [0, 1] and d shortened to |d|_2 <= eps
    loss(x) = (1/m) sum_i -log f(x + d + e_i)_y

The same noises serve attack and training; the network is in eval mode during the attack. In the first epochs eps is
smaller: in epoch k, from 0, it is eps min(1, (k + 1) / warm_up).
Source: Salman et al. (2019), "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers"; order
of clamping and shortening, and the warm-up, as in the authors' code.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError
from sigmax.train.method import Batch, Method, Score
from sigmax.train.noise_attack import attacking, gradient, in_full, shortened, unit
from sigmax.train.noisy import by_copy, noisy_copies


@dataclass(frozen=True)
class SmoothAdv(Method):
    """The loss above. A step passes its inputs through the network steps + 1 times, each way."""

    name: ClassVar[str] = "smoothadv"
    sigma: float  # noise in pixels
    epsilon: float = 1.0  # radius of the ball, l2 in pixels; the papers' 256 is 1.0, 512 is 2.0
    copies: int = 4  # m
    steps: int = 10  # T
    warm_up: int = 10  # epochs until epsilon is reached

    def __post_init__(self) -> None:
        _check(0 <= self.sigma < math.inf, "sigma", "finite and not negative", self.sigma)
        _check(0 < self.epsilon < math.inf, "epsilon", "positive and finite", self.epsilon)
        for name in ("copies", "steps", "warm_up"):
            value = getattr(self, name)
            _check(type(value) is int and value >= 1, name, "a whole number of at least 1", value)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is an attacked noisy copy of the true class."""
        nothing = torch.zeros_like(batch.pixels)
        noise = noisy_copies(nothing, self.noise_of(batch), self.copies, batch.generator)
        attacked = self.attacked(model, batch.pixels, batch.targets, noise, epoch=batch.epoch)
        logits = in_full(model(attacked.repeat(self.copies, 1, 1, 1) + noise))
        targets = batch.targets.repeat(self.copies)
        right = (logits.argmax(dim=1) == targets).float().mean()
        return Score(functional.cross_entropy(logits, targets), right)

    def attacked(self, model: nn.Module, pixels: Tensor, targets: Tensor, noise: Tensor, *, epoch: int) -> Tensor:
        """x + d for each of the pixels, (n, C, H, W), in [0, 1]; noise is (m * n, C, H, W), copy-major."""
        radius = self.radius(epoch)
        away = torch.zeros_like(pixels)

        def losses(inputs: Tensor) -> Tensor:
            return self.smoothed_losses(model(inputs.repeat(self.copies, 1, 1, 1) + noise), targets)

        with attacking(model):
            for _ in range(self.steps):
                climbed = away + 2 * radius / self.steps * unit(gradient(losses, pixels + away))
                # Shortened last: that keeps x + d between x and the clamped image, so within [0, 1] too.
                away = shortened((pixels + climbed).clamp(0, 1) - pixels, radius)
        return (pixels + away).clamp(0, 1)  # once more, for the last bit of the sum

    def smoothed_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """-log of the mean softmax at the true class, (n,), from the logits of the copies, (m * n, K)."""
        log_f = by_copy(in_full(logits), self.copies).log_softmax(dim=2)
        mean = log_f.logsumexp(dim=0) - math.log(self.copies)
        return functional.nll_loss(mean, targets, reduction="none")

    def radius(self, epoch: int) -> float:
        """eps of the epoch, counted from 0."""
        return self.epsilon * min(1.0, (epoch + 1) / self.warm_up)


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
