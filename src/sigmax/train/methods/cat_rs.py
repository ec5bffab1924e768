"""CAT-RS: fit only the easier noises of inputs the network is unsure of; harden those it is sure of.

# x input; y its class; f softmax of the network trained; d_1 .. d_m noises; c_i = -log f(x + d_i)_y
# h the target network, trained with Gaussian noise and fixed; t = (1/m) sum_i h(x + d_i) its smoothed prediction
# d_i* the noise d_i attacked (noise_attack.within_ball) to raise KL(t || f(x + d_i*))

    K ~ Binomial(m, share of the m noises on which f is right), at least 1
    loss(x) = mean of the K smallest c_i + [K = m] weight max_i KL(t || f(x + d_i*))

The attack sees the network in eval mode. The authors' code divides the sum of the K smallest c_i by m, which makes
unsure inputs count less; `mean_over="copies"` does that.
The authors' t is a vote of 10,000 noises, made once of the images without augmentation; this one follows the images
as they are augmented and costs a pass through h.
Source: Jeong, Kim & Shin (2023), "Confidence-aware Training of Smoothed Classifiers for Certified Robustness".
"""

import math
from dataclasses import field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax import models
from sigmax.config.validation import Count, Positive, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.noisy import by_copy, noisy_copies, per_image
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.noise_attack import attacking, in_full, within_ball
from sigmax.train.methods.registry import on_cifar10, register
from sigmax.train.methods.teacher import check_classes, fixed_copy, ready_for


@register(
    summary="Fits the easier noises of uncertain images and hardens the confident ones; needs a Gaussian target.",
    presets=on_cifar10(weight=(0.5, 1.0, 2.0), copies=4, epsilon=1.0, steps=4),
)
@options
class CatRS(Method):
    """The loss above. A step passes its inputs through the network steps + 2 times, each way."""

    name: ClassVar[str] = "cat-rs"
    sigma: Annotated[Positive, about("noise in pixels")]
    target: Annotated[nn.Module | str | Path | None, about("h, a Gaussian model or its checkpoint: needed")] = None
    weight: Annotated[Weight, about("lambda")] = 0.5
    copies: Annotated[Count, about("m, noisy copies of each image")] = 4
    epsilon: Annotated[Positive, about("radius of the attack on a noise, l2 in pixels")] = 1.0
    steps: Annotated[Count, about("steps of the attack")] = 4
    mean_over: Annotated[Literal["kept", "copies"], about("divide the sum of the K smallest by K, or by m")] = "kept"
    teacher: nn.Module = field(init=False, repr=False, compare=False)  # h itself, a copy that is never trained
    fingerprint: str = field(init=False, repr=False)  # of h

    def __post_init__(self) -> None:
        teacher = _teacher(self.target, self.sigma)
        object.__setattr__(self, "teacher", teacher)
        object.__setattr__(self, "fingerprint", models.fingerprint(teacher))

    def plan(self) -> dict[str, Any]:
        """The target network stands there by its fingerprint: what it computes counts, not where it lies."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "target"}
        return {"name": self.name, **own, "target": self.fingerprint}

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy, before the attack, of the true class."""
        nothing = torch.zeros_like(batch.pixels)
        noise = noisy_copies(nothing, self.noise_of(batch), self.copies, batch.generator)
        pixels = batch.pixels.repeat(self.copies, 1, 1, 1)
        logits = by_copy(model(pixels + noise), self.copies)
        wanted = self.wanted(pixels + noise)
        check_classes(wanted.shape[1], logits.shape[2], what="target", method=self.name)
        right = logits.argmax(dim=2) == batch.targets
        kept = self.sample_kept(right, batch.generator)
        hard = self.attacked(model, pixels, noise, wanted)
        losses = self.losses(logits, by_copy(model(pixels + hard), self.copies), batch.targets, wanted, kept)
        return Score(losses.mean(), right.float().mean())

    def wanted(self, noisy: Tensor) -> Tensor:
        """log t, (n, K), of noisy inputs (m * n, C, H, W)."""
        teacher = ready_for(self.teacher, noisy, what="target", method=self.name)
        with torch.no_grad():
            log_h = by_copy(in_full(teacher(noisy)), self.copies).log_softmax(dim=2)
        return log_h.logsumexp(dim=0) - math.log(self.copies)

    def sample_kept(self, right: Tensor, generator: torch.Generator) -> Tensor:
        """K of each input, (n,), from which of its copies are right, (m, n)."""

        def sample(n: int) -> Tensor:
            return torch.rand(self.copies, n, device=right.device, generator=generator)

        share = right.float().mean(dim=0)
        return (per_image(sample, right.shape[1], generator, dim=1) < share).sum(dim=0).clamp_min(1)

    def attacked(self, model: nn.Module, pixels: Tensor, noise: Tensor, wanted: Tensor) -> Tensor:
        """The noises d*, (m * n, C, H, W)."""

        def losses(moved: Tensor) -> Tensor:
            return divergence(wanted, by_copy(model(pixels + moved), self.copies)).flatten()

        with attacking(model):
            return within_ball(losses, noise, radius=self.epsilon, steps=self.steps)

    def losses(self, logits: Tensor, hard: Tensor, targets: Tensor, wanted: Tensor, kept: Tensor) -> Tensor:
        """The loss of each input, (n,), from logits of its copies as sampled and attacked, (m, n, K), log t and K."""
        fits = functional.cross_entropy(
            in_full(logits).movedim(2, 1), targets.expand(len(logits), -1), reduction="none"
        )
        counted = torch.arange(self.copies, device=kept.device)[:, None] < kept
        easier = (fits.sort(dim=0).values * counted).sum(dim=0)
        low = easier / (kept if self.mean_over == "kept" else self.copies)
        high = divergence(wanted, hard).amax(dim=0)
        return low + self.weight * (kept == self.copies) * high


def divergence(wanted: Tensor, logits: Tensor) -> Tensor:
    """KL(t || f), (m, n), from log t, (n, K), and the logits of f, (m, n, K)."""
    return (wanted.exp() * (wanted - in_full(logits).log_softmax(dim=2))).sum(dim=2)


def _teacher(target: nn.Module | str | Path | None, sigma: float) -> nn.Module:
    """The target network, fixed; what cannot be one is refused."""
    if target is None:
        raise RequestError(
            "cat-rs needs a target model that was trained with Gaussian noise, and got none; train one with "
            f"--method gaussian at sigma {sigma:g} and name its checkpoint as the target"
        )
    teacher = fixed_copy(target)
    described = models.describe(teacher)
    if described is not None and described.sigma is not None and not math.isclose(described.sigma, sigma):
        raise RequestError(
            f"the target model was trained with noise {described.sigma:g} and cat-rs is to train with {sigma:g}; "
            "its predictions under other noise are no target: give one trained with the same sigma"
        )
    return teacher
