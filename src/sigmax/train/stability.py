"""Stability training: the network is to say of a noisy input what it says of the clean one.

# x input; y its class; f softmax; d noise; CE(p, q) = -sum_c p_c log q_c

    loss(x) = -log f(x)_y + weight * CE(f(x), f(x + d))

Classes are learned from clean inputs alone; what the network makes of them is the target for their noisy copies.
`weight` is the tables' lambda. Gradients flow into both answers. Clean and noisy inputs pass the network one after
the other, so that layers with batch statistics do not mix them; a step's passes have 2 * batch inputs in all.
Source: Li, Chen, Wang & Carin (2019), "Certified Adversarial Robustness with Additive Noise", after Zheng et al.
(2016); in the form and with the weights that Jeong & Shin (2020) compare with.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.method import Batch, Method, Score
from sigmax.train.noise_attack import in_full
from sigmax.train.noisy import noisy_copies


@dataclass(frozen=True)
class Stability(Method):
    """The loss above, with one noisy copy of each input."""

    name: ClassVar[str] = "stability"
    sigma: float  # noise in pixels
    weight: float = 2.0  # lambda

    def __post_init__(self) -> None:
        _check(0 < self.sigma < math.inf, "sigma", "positive and finite", self.sigma)
        _check(0 <= self.weight < math.inf, "weight", "at least 0 and finite", self.weight)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy input of the true class."""
        clean = model(batch.pixels)
        noisy = model(noisy_copies(batch.pixels, self.noise_of(batch), 1, batch.generator))
        right = noisy.argmax(dim=1) == batch.targets
        return Score(self.losses(clean, noisy, batch.targets).mean(), right.float().mean())

    def losses(self, clean: Tensor, noisy: Tensor, targets: Tensor) -> Tensor:
        """The loss of each input, (n,), from its logits without and with noise, (n, K), and its class, (n,)."""
        log_clean = in_full(clean).log_softmax(dim=1)
        log_noisy = in_full(noisy).log_softmax(dim=1)
        learned = -log_clean.gather(1, targets[:, None])[:, 0]
        return learned - self.weight * (log_clean.exp() * log_noisy).sum(dim=1)


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
