"""SmoothAdv: train where the smoothed classifier is weakest, within a ball around each input.

# x input; y its class; f softmax; e_1 .. e_m noises, sampled once and then fixed; d the perturbation, from d = 0

    attack, T times:  d <- d + (2 eps / T) g / |g|_2,    g = gradient in d of -log (1/m) sum_i f(x + d + e_i)_y,
                      then x + d is clamped to [0, 1] and d shortened to |d|_2 <= eps
    loss(x) = (1/m) sum_i -log f(x + d + e_i)_y

The same noises serve attack and training; the network is in eval mode during the attack. In the first epochs eps is
smaller: in epoch k, from 0, it is eps min(1, (k + 1) / warm_up).
Source: Salman et al. (2019), "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers"; order
of clamping and shortening, and the warm-up, as in the authors' code.
"""

import math
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax.config.validation import Count, Positive, Weight, about, options
from sigmax.train.loop.noisy import by_copy, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.noise_attack import attacking, gradient, in_full, shortened, unit
from sigmax.train.methods.registry import on_cifar10, register


@register(
    summary="Cross-entropy where the smoothed classifier is weakest near each image.",
    presets=on_cifar10(epsilon=(1.0, 1.0, 2.0), copies=(4, 8, 2), steps=10, warm_up=10),
)
@options
class SmoothAdv(Method):
    """The loss above. A step passes its inputs through the network steps + 1 times, each way."""

    name: ClassVar[str] = "smoothadv"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Weight, about("noise in pixels; 0 trains without")]
    epsilon: Annotated[Positive, about("radius of the ball, l2 in pixels; the papers' 256 is 1.0, 512 is 2.0")] = 1.0
    copies: Annotated[Count, about("m, noisy copies of each image")] = 4
    steps: Annotated[Count, about("T, steps of the attack")] = 10
    warm_up: Annotated[Count, about("epochs until epsilon is reached")] = 10

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is an attacked noisy copy of the true class."""
        nothing = torch.zeros_like(batch.pixels)
        noise = noisy_copies(nothing, self.noise_of(batch), self.copies, batch.generator)
        attacked = self.attacked(model, batch.pixels, batch.targets, noise, epoch=batch.epoch)
        logits = in_full(model(attacked.repeat(self.copies, 1, 1, 1) + noise))
        targets = batch.targets.repeat(self.copies)
        return Score.of(functional.cross_entropy(logits, targets), logits, targets)

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
