"""SmoothMix: confidence is to fall steadily on the way from an input to where the smoothed classifier errs.

# x input; y its class; f softmax; d_1 .. d_m noises, sampled once and then fixed; F(x) = (1/m) sum_i f(x + d_i)
# u the same probability for every class; l uniform on [0, 1/2], sampled for each input; w warm-up, see below

    attack, T times from a_0 = x:  a_(t+1) = a_t + step * g / |g|_2,    g = gradient in a of -log F(a_t)_y,
                                   then a_(t+1) is clamped to [0, 1]; no ball bounds it
    start:    s = x, or with mix_step = 1 s = a_1, brought to within w * step of x
    mixture:  x_mix = (1 - l) s + l a_T,    q = (1 - l) F(s) + l u
    loss(x) = (1/m) sum_i -log f(s + d_i)_y
              + w * weight * [F(s) is largest at y] * (1/m) sum_i KL(q || f(x_mix + d_i))

`weight` is the paper's eta. mix_step = 1 is its one-step adversary: the attack's first point stands for the input
in all that is learned. Gradients flow through q, but not through the attack, which sees the network in eval mode.
In epoch k, from 0, w = min(1, (k + 1) / warm_up). A step learns from the mean over its inputs; starts and mixtures
pass the network one after the other, so that layers with batch statistics do not mix them.
Source: Jeong et al. (2021), "SmoothMix: Training Confidence-calibrated Smoothed Classifiers for Certified
Robustness"; clamping, eval mode, warm-up and the gradient through q as in the authors' code.
"""

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from sigmax.config.validation import Count, Positive, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.noisy import by_copy, noisy_copies, uniform
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.consistency import fit, log_of_mean
from sigmax.train.methods.noise_attack import attacking, gradient, in_full, shortened, unit
from sigmax.train.methods.registry import on_cifar10, register


@register(
    summary="Confidence is to fall steadily towards where the smoothed classifier errs.",
    presets=on_cifar10(step=(0.5, 1.0, 2.0), mix_step=(0, 1, 1), steps=4, weight=5.0, copies=2),
)
@options
class SmoothMix(Method):
    """The loss above. A step passes its inputs through the network steps + 2 times, each way."""

    name: ClassVar[str] = "smoothmix"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Positive, about("noise in pixels")]
    step: Annotated[Positive, about("length of a step of the attack, l2 in pixels")] = 1.0
    steps: Annotated[Count, about("T, steps of the attack; more than mix_step")] = 4
    weight: Annotated[Weight, about("eta")] = 5.0
    mix_step: Annotated[Literal[0, 1], about("the point of the attack at which mixtures start")] = 0
    copies: Annotated[Count, about("m, noisy copies of each image")] = 2
    warm_up: Annotated[Count, about("epochs until w is 1")] = 10

    def __post_init__(self) -> None:
        if self.steps <= self.mix_step:
            raise RequestError(f"steps: expected more than mix_step={self.mix_step}, got {self.steps}")

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of a start, s + d_i, of the true class."""
        nothing = torch.zeros_like(batch.pixels)
        noise = noisy_copies(nothing, self.noise_of(batch), self.copies, batch.generator)
        mixed = uniform(batch.pixels, batch.generator) / 2
        warm = min(1.0, (batch.epoch + 1) / self.warm_up)
        start, end = self.attacked(model, batch.pixels, batch.targets, noise, warm=warm)
        logits = self._logits(model, start, noise)
        between = start + mixed[:, None, None, None] * (end - start)
        losses = self.losses(logits, self._logits(model, between, noise), batch.targets, mixed, warm=warm)
        return Score.of(losses, logits, batch.targets)

    def attacked(
        self, model: nn.Module, pixels: Tensor, targets: Tensor, noise: Tensor, *, warm: float
    ) -> tuple[Tensor, Tensor]:
        """s and a_T of each of the pixels, (n, C, H, W), in [0, 1]; noise is (m * n, C, H, W), copy-major."""

        def losses(inputs: Tensor) -> Tensor:
            log_mean = log_of_mean(self._logits(model, inputs, noise).log_softmax(dim=2))
            return -log_mean.gather(1, targets[:, None])[:, 0]

        start = end = pixels
        with attacking(model):
            for t in range(self.steps):
                end = (end + self.step * unit(gradient(losses, end))).clamp(0, 1)
                if t + 1 == self.mix_step:
                    start = (pixels + shortened(end - pixels, warm * self.step)).clamp(0, 1)
        return start, end

    def losses(self, start: Tensor, mixture: Tensor, targets: Tensor, mixed: Tensor, *, warm: float) -> Tensor:
        """The loss of each input, (n,): logits of the copies of s and of x_mix, (m, n, K); class and l, (n,)."""
        log_f = in_full(start).log_softmax(dim=2)
        log_mean = log_of_mean(log_f)
        share = mixed[:, None].to(log_mean)
        log_q = torch.logaddexp(log_mean + (1 - share).log(), (share / log_mean.shape[1]).log())
        divergence = (log_q.exp() * (log_q - in_full(mixture).log_softmax(dim=2))).sum(dim=2).mean(dim=0)
        right = log_mean.argmax(dim=1) == targets
        return fit(log_f, targets) + warm * self.weight * right * divergence

    def _logits(self, model: nn.Module, inputs: Tensor, noise: Tensor) -> Tensor:
        """Of every noisy copy of the inputs, (m, n, K)."""
        return by_copy(in_full(model(inputs.repeat(self.copies, 1, 1, 1) + noise)), self.copies)
