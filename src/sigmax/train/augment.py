"""Shifted and mirrored images, made on the device the images are on."""

import torch
from torch import Tensor
from torch.nn import functional

_MARGIN = 8  # an image is shifted by up to a side / _MARGIN: 4 pixels of 32, 1 of 8


def augment(kind: str, images: Tensor, generator: torch.Generator) -> Tensor:
    """The images changed as `Settings.augment` says, each in its own way."""
    if kind == "none":
        return images
    shifted = crop(images, generator)
    return shifted if kind == "crop" else flip(shifted, generator)


def crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by its own whole number of pixels; what comes in from outside is black."""
    n, channels, height, width = images.shape
    top, left = height // _MARGIN, width // _MARGIN
    padded = functional.pad(images, (left, left, top, top))
    rows = _offsets(n, top, images, generator) + torch.arange(height, device=images.device)
    columns = _offsets(n, left, images, generator) + torch.arange(width, device=images.device)
    which = torch.arange(n, device=images.device)[:, None, None, None]
    plane = torch.arange(channels, device=images.device)[:, None, None]
    return padded[which, plane, rows[:, None, :, None], columns[:, None, None, :]]


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right with probability one half."""
    mirrored = torch.rand(len(images), 1, 1, 1, device=images.device, generator=generator) < 0.5
    return torch.where(mirrored, images.flip(-1), images)


def _offsets(n: int, margin: int, images: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2 * margin + 1, (n, 1), device=images.device, generator=generator)
