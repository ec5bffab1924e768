"""Noisy copies of a batch, and every other random number that belongs to an image.

# n images of a batch; m copies of each, copy-major: copy 0 of all images, then copy 1 of all, ...

Several processes may hold a share each of one batch. Sampled here, an image's numbers are the ones that a single
process would have sampled for it: each process samples for the whole batch and keeps its share. So a method samples by
these functions, and never by torch's own from the batch's generator.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sigmax.engine.splits import seen_at
from sigmax.errors import RequestError
from sigmax.radius.noise import Gaussian, Noise
from sigmax.radius.splitting import Split
from sigmax.radius.uniform import Uniform

# What a network may be trained under; the level of each is its sigma or its scale. Splits are those of `Splitting` with
# its usual grid and seed: a network learns the very images that it will vote on.
NoiseName = Literal["gaussian", "uniform", "splitting"]


class Share(NamedTuple):
    """Which images of a batch a process holds: those from `first` to before `last`, of `whole` in all."""

    first: int
    last: int
    whole: int


class SharedGenerator(torch.Generator):
    """A generator in the same state in every process; `share` is what this process keeps of what it samples."""

    share: Share | None = None


def noisy_copies(
    pixels: Tensor, sigma: float | Tensor, copies: int, generator: torch.Generator, noise: NoiseName = "gaussian"
) -> Tensor:
    """m copies of each image with fresh noise, (m * n, C, H, W), copy-major; sigma in pixels, one or (n,).

    sigma: the level of whatever noise it is. Not clamped: the theorem is about x + noise, not about images.
    """
    if noise == "splitting":
        return _split_copies(pixels, sigma, copies, generator)
    return add_to_copies(pixels, sigma, standard_noise(pixels, copies, generator, noise))


def standard_noise(pixels: Tensor, copies: int, generator: torch.Generator, noise: NoiseName = "gaussian") -> Tensor:
    """Noise of level 1 for m copies of each image, (m * n, C, H, W), copy-major."""

    def sample(n: int) -> Tensor:
        return level_one((copies, n, *pixels.shape[1:]), pixels, generator, noise)

    return per_image(sample, len(pixels), generator, dim=1).flatten(0, 1)


def level_one(shape: tuple[int, ...], like: Tensor, generator: torch.Generator, noise: NoiseName) -> Tensor:
    """Additive noise of level 1, of the kind and on the device of `like`."""
    how = {"device": like.device, "dtype": like.dtype, "generator": generator}
    if noise == "uniform":
        return torch.rand(shape, **how).mul_(2).sub_(1)  # type: ignore[call-overload, no-any-return]
    return torch.randn(shape, **how)  # type: ignore[call-overload, no-any-return]


def _split_copies(pixels: Tensor, sigma: float | Tensor, copies: int, generator: torch.Generator) -> Tensor:
    if isinstance(sigma, Tensor):
        raise RequestError("splitting noise has one scale for all images; train one network for each scale")
    split = Split.of_scale(sigma)

    def sample(n: int) -> Tensor:
        return torch.randint(split.offsets, (copies, n), device=pixels.device, generator=generator)

    looks = per_image(sample, len(pixels), generator, dim=1).flatten()
    return split_images(pixels.repeat(copies, *[1] * (pixels.ndim - 1)), looks, split)


def split_images(pixels: Tensor, looks: Tensor, split: Split) -> Tensor:
    """Each image as it is seen at its look, once rounded to the grid."""
    steps = (pixels.flatten(1) * split.grid).round().long()
    return seen_at(steps, looks, split).to(pixels.dtype).view_as(pixels)


def noise_note(noise: NoiseName) -> dict[str, str]:
    """What a checkpoint's notes say of the noise it was trained under, beside its level; nothing of Gaussian noise."""
    return {} if noise == "gaussian" else {"noise": noise}


def refuse_denoiser(denoiser: object, noise: NoiseName) -> None:
    """Raise where a denoiser, which takes the sigma of Gaussian noise, is to remove another."""
    if denoiser is not None and noise != "gaussian":
        raise RequestError(f"denoisers remove Gaussian noise and cannot be put before {noise} noise; leave it out")


def distribution(name: str, level: float) -> Noise:
    """The noise of this name and level, as a theorem sees it."""
    made: dict[str, Callable[[float], Noise]] = {
        "gaussian": Gaussian,
        "uniform": Uniform,
        "splitting": Split.of_scale,
    }
    if name not in made:
        raise RequestError(f"noise must be one of {', '.join(get_args(NoiseName))}; got {name!r}")
    return made[name](level)


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
