"""Noisy copies of a batch, and every other random number that belongs to an image.

# n images of a batch; m copies of each, copy-major: copy 0 of all images, then copy 1 of all, ...

Several processes may hold a share each of one batch. Sampled here, an image's numbers are the ones that a single
process would have sampled for it: each process samples for the whole batch and keeps its share. So a method samples by
these functions, and never by torch's own from the batch's generator.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Share(NamedTuple):
    """Which images of a batch a process holds: those from `first` to before `last`, of `whole` in all."""

    first: int
    last: int
    whole: int


class SharedGenerator(torch.Generator):
    """A generator in the same state in every process; `share` is what this process keeps of what it samples."""

    share: Share | None = None


def noisy_copies(pixels: Tensor, sigma: float | Tensor, copies: int, generator: torch.Generator) -> Tensor:
    """m copies of each image with fresh noise, (m * n, C, H, W), copy-major; sigma in pixels, one or (n,).

    Not clamped: the theorem is about x + noise, not about images.
    """
    return add_to_copies(pixels, sigma, standard_noise(pixels, copies, generator))


def standard_noise(pixels: Tensor, copies: int, generator: torch.Generator) -> Tensor:
    """Noise of standard deviation 1 for m copies of each image, (m * n, C, H, W), copy-major."""

    def sample(n: int) -> Tensor:
        shape = copies, n, *pixels.shape[1:]
        return torch.randn(shape, device=pixels.device, dtype=pixels.dtype, generator=generator)

    return per_image(sample, len(pixels), generator, dim=1).flatten(0, 1)


def add_to_copies(pixels: Tensor, sigma: float | Tensor, noise: Tensor) -> Tensor:
    """pixels + sigma * noise, for noise of m copies of each image, (m * n, C, H, W); sigma one or (n,)."""
    scale = sigma.to(pixels.dtype)[:, None, None, None] if isinstance(sigma, Tensor) and sigma.ndim else sigma
    return (pixels + scale * by_copy(noise, len(noise) // len(pixels))).flatten(0, 1)


def by_copy(stacked: Tensor, copies: int) -> Tensor:
    """What was computed of m noisy copies, (m * n, ...), as (m, n, ...)."""
    return stacked.reshape(copies, len(stacked) // copies, *stacked.shape[1:])


def uniform(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """A number from [0, 1) for each image, (n,)."""

    def sample(n: int) -> Tensor:
        return torch.rand(n, device=pixels.device, dtype=pixels.dtype, generator=generator)

    return per_image(sample, len(pixels), generator)


def per_image(sample: Callable[[int], Tensor], n: int, generator: torch.Generator, *, dim: int = 0) -> Tensor:
    """`sample(n)` for this process's n images, which lie along `dim`; `sample` uses the generator."""
    share = generator.share if isinstance(generator, SharedGenerator) else None
    if share is None:
        return sample(n)
    return sample(share.whole).narrow(dim, share.first, share.last - share.first)
