"""Attacks on the noise: from the noise that was sampled to one that is as likely, or nearly, and harder to stand.

# x input; d0 the noise sampled for it, d the noise attacked; g gradient of the loss in d, the network in eval mode
# mean(d), rms(d) over the numbers of one noise; D how many numbers that is; a noise is moved for itself alone

within_ball (CAT-RS):  d <- d + (2 radius / steps) g / |g|_2, then to the nearest point with |d - d0|_2 <= radius,
    then shifted and scaled so that mean(d) = mean(d0) and rms(d) = rms(d0).
on_sphere (easy samples):  while the network is right, at most `steps` times,
    d <- d + step g / |g|_2  or, for l-infinity,  d <- d + (step / sqrt D) sign(g),  then  d <- d |d0|_2 / |d|_2.
    Noises that the network errs on as they were sampled stay as they are, to the bit. A step of either kind is `step`
    long before it is brought back to the sphere, where the density of the noise is that of d0.

Sources: Jeong, Kim & Shin (2023), "Confidence-aware Training of Smoothed Classifiers for Certified Robustness";
Sun et al. (2025), "Average Certified Radius is a Poor Metric for Randomized Smoothing", Algorithm 1, App. C.3, E.4.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["l2", "linf"]
Losses = Callable[[Tensor], Tensor]  # of inputs (B, C, H, W), (B,): each depends on its own input alone


@contextmanager
def attacking(model: nn.Module) -> Iterator[None]:
    """The model in eval mode and its parameters without gradients; everything is as before afterwards.

    In eval mode an input's logits do not depend on its neighbours, and batch statistics do not learn the attack.
    """
    modes = [(module, module.training) for module in model.modules()]
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)
        for module, training in modes:
            module.training = training


def within_ball(losses: Losses, noise: Tensor, *, radius: float, steps: int) -> Tensor:
    """The noises moved to raise their losses, each within `radius` (l2, pixels) and of its own mean and RMS.

    Restoring mean and RMS may take a noise out of the ball again, but no further than radius * s / (s - radius), where
    s is |d0 - mean(d0)|_2: for radius 1 and sigma 0.5 on 3x32x32 pixels, 1.04.
    """
    sampled = noise
    for _ in range(steps):
        moved = noise + 2 * radius / steps * unit(gradient(losses, noise))
        noise = _restandardised(sampled + shortened(moved - sampled, radius), like=sampled)
    return noise


def on_sphere(
    model: nn.Module, pixels: Tensor, targets: Tensor, noise: Tensor, *, steps: int, step: float, norm: Norm = "l2"
) -> Tensor:
    """The noises of `pixels`, each moved on its own sphere until the network errs; (B, C, H, W) like `pixels`."""
    length = _lengths(noise)
    for _ in range(steps):
        with torch.enable_grad():
            at = noise.detach().requires_grad_()
            logits = model(pixels + at)
            losses = functional.cross_entropy(in_full(logits), targets, reduction="sum")
            (slope,) = torch.autograd.grad(losses, at)
        moved = noise + step * (unit(slope) if norm == "l2" else slope.sign() / math.sqrt(noise[0].numel()))
        right = (logits.detach().argmax(dim=1) == targets)[:, None, None, None]
        noise = torch.where(right, moved * (length / _lengths(moved)), noise)
    return noise


def gradient(losses: Losses, at: Tensor) -> Tensor:
    """The gradient of each input's loss in that input, (B, C, H, W). Nothing is left on the model's parameters."""
    with torch.enable_grad():
        at = at.detach().requires_grad_()
        (slope,) = torch.autograd.grad(losses(at).sum(), at)
    return slope


def unit(vectors: Tensor) -> Tensor:
    """Each of (B, C, H, W) divided by its l2 norm; zero stays zero."""
    # Scaled first, because the squares of small numbers vanish.
    largest = vectors.abs().amax(dim=(1, 2, 3), keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, 1)
    return scaled / _lengths(scaled).clamp_min(1)


def shortened(vectors: Tensor, radius: float) -> Tensor:
    """The nearest vectors of length at most `radius`."""
    return vectors * (radius / _lengths(vectors).clamp_min(radius))


def in_full(logits: Tensor) -> Tensor:
    """The logits in 32 bits or more, whatever precision the network computed them in."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _restandardised(noise: Tensor, *, like: Tensor) -> Tensor:
    """The noise with the mean and RMS of another. With the mean, equal RMS is equal spread around the mean."""
    mean = like.mean(dim=(1, 2, 3), keepdim=True)
    centred = noise - noise.mean(dim=(1, 2, 3), keepdim=True)
    return mean + centred * (_lengths(like - mean) / _lengths(centred))


def _lengths(vectors: Tensor) -> Tensor:
    """The l2 norms, (B, 1, 1, 1)."""
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=(1, 2, 3), keepdim=True)
    return lengths
