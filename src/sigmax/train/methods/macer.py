"""MACER: train for the certified radius itself, without an attack.

# x input; y its class; f_k softmax on noisy copy k; z = mean_k f_k; z' the same of logits times beta
# z'_1 >= z'_2 the largest two of z'; xi = Phi^-1(z'_2) - Phi^-1(z'_1): with z' the radius would be -sigma / 2 * xi

    loss(x) = -log z(y) + weight * sigma / 2 * (gamma + xi)    where z' is largest at y and |xi| <= gamma
    loss(x) = -log z(y)                                        elsewhere

A hinge: an input that is misclassified has no radius, and one whose radius is beyond gamma * sigma / 2 has enough
of it. `weight` is the paper's lambda. A step learns from the mean of loss(x) over all of its inputs, those without
the second part counted too. Where every input has a sigma of its own, it is that.
Source: Zhai et al. (2020), "MACER: Attack-free and Scalable Robust Training via Maximizing Certified Radius".
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from sigmax.config.validation import Count, Positive, Weight, Whole, about, options
from sigmax.train.loop.noisy import by_copy, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.consistency import log_of_mean
from sigmax.train.methods.noise_attack import in_full
from sigmax.train.methods.registry import on_cifar10, register


@register(
    summary="A soft certified radius is made large.",
    presets=on_cifar10(weight=(12.0, 6.0, 12.0), copies=16, beta=16.0, gamma=8.0, plain_epochs=(0, 0, 50)),
)
@options
class Macer(Method):
    """The loss above. A step passes its inputs through the network once."""

    name: ClassVar[str] = "macer"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Positive, about("noise in pixels")]
    weight: Annotated[Weight, about("lambda, per pixel of radius")] = 12.0
    gamma: Annotated[Positive, about("the hinge, in units of half a sigma")] = 8.0
    beta: Annotated[Positive, about("more brings z' nearer to a share of votes; gradients get rarer and larger")] = 16.0
    copies: Annotated[Count, about("k, noisy copies of each image")] = 16
    plain_epochs: Annotated[Whole, about("epochs at the start in which the weight is 0")] = 0

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        sigma = self.noise_of(batch)
        logits = by_copy(model(noisy_copies(batch.pixels, sigma, self.copies, batch.generator)), self.copies)
        losses = self.misfit(logits, batch.targets)
        if self.weight > 0 and batch.epoch >= self.plain_epochs:
            losses = losses + self.weight * sigma / 2 * self.shortfall(logits, batch.targets)
        return Score.of(losses, logits, batch.targets)

    def misfit(self, logits: Tensor, targets: Tensor) -> Tensor:
        """-log z(y) of each input, (n,), from the logits of its copies, (k, n, K), and its class, (n,)."""
        log_z = log_of_mean(in_full(logits).log_softmax(dim=2))
        return -log_z.gather(1, targets[:, None])[:, 0]

    def shortfall(self, logits: Tensor, targets: Tensor) -> Tensor:
        """gamma + xi of each input, (n,), or 0 where the hinge leaves it out; never below 0 or above gamma."""
        z = (self.beta * in_full(logits)).softmax(dim=2).mean(dim=0)
        top, classes = z.topk(2, dim=1)
        with torch.no_grad():
            kept = (classes[:, 0] == targets) & (_xi(top).abs() <= self.gamma)  # what is not a number is not kept
        # Phi^-1 is infinitely steep at 0 and 1, and no gradient comes back from there: only kept inputs go in.
        safe = torch.where(kept[:, None], top, top.new_tensor([0.75, 0.25]))
        return torch.where(kept, self.gamma + _xi(safe), 0)


def _xi(top: Tensor) -> Tensor:
    """xi, (n,), from z'_1 and z'_2, (n, 2)."""
    quantiles: Tensor = torch.special.ndtri(top)
    return quantiles[:, 1] - quantiles[:, 0]
