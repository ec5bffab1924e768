"""Stability training: the network is to say of a noisy input what it says of the clean one.

# x input; y its class; f softmax; d noise; CE(p, q) = -sum_c p_c log q_c

    loss(x) = -log f(x)_y + weight * CE(f(x), f(x + d))

Classes are learned from clean inputs alone; what the network makes of them is the target for their noisy copies.
`weight` is the tables' lambda. Gradients flow into both answers. Clean and noisy inputs pass the network one after
the other, so that layers with batch statistics do not mix them; a step's passes have 2 * batch inputs in all.
Source: Li, Chen, Wang & Carin (2019), "Certified Adversarial Robustness with Additive Noise", after Zheng et al.
(2016); in the form and with the weights that Jeong & Shin (2020) compare with.
"""

from typing import Annotated, ClassVar

from torch import Tensor, nn

from sigmax.config.validation import Positive, Weight, about, options
from sigmax.train.loop.noisy import NoiseName, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.noise_attack import in_full
from sigmax.train.methods.registry import on_cifar10, register


@register(
    summary="Noisy images are to be classified like clean ones.",
    presets=on_cifar10(weight=(2.0, 2.0, 1.0)),
)
@options
class Stability(Method):
    """The loss above, with one noisy copy of each input."""

    name: ClassVar[str] = "stability"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Positive, about("noise in pixels")]
    weight: Annotated[Weight, about("lambda")] = 2.0
    noise: Annotated[NoiseName, about("distribution of the noise")] = "gaussian"

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy input of the true class."""
        clean = model(batch.pixels)
        noisy = model(noisy_copies(batch.pixels, self.noise_of(batch), 1, batch.generator, self.noise))
        return Score.of(self.losses(clean, noisy, batch.targets), noisy, batch.targets)

    def losses(self, clean: Tensor, noisy: Tensor, targets: Tensor) -> Tensor:
        """The loss of each input, (n,), from its logits without and with noise, (n, K), and its class, (n,)."""
        log_clean = in_full(clean).log_softmax(dim=1)
        log_noisy = in_full(noisy).log_softmax(dim=1)
        learned = -log_clean.gather(1, targets[:, None])[:, 0]
        return learned - self.weight * (log_clean.exp() * log_noisy).sum(dim=1)
