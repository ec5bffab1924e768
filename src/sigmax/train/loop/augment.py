"""Images shifted, mirrored and, where that is not enough, distorted; made on the device the images are on."""

import math

import torch
from torch import Tensor
from torch.nn import functional

_MARGIN = 8  # an image is shifted by up to a side / _MARGIN: 4 pixels of 32, 1 of 8
_TURN = math.radians(15)  # at most, either way
_SHEAR = 0.15
_STRETCH = math.log(1.2)  # of each side by itself: 1 / 1.2 to 1.2
_TINT = math.log(1.4)  # of brightness, contrast and saturation: 1 / 1.4 to 1.4
_SMALLEST = 160 / 224  # side of a part that is enlarged, in sides of the image
_HOLE = 4  # a square of a side / _HOLE is covered: 8 pixels of 32


def augment(kind: str, images: Tensor, generator: torch.Generator) -> Tensor:
    """The images changed as `Settings.augment` says, each in its own way."""
    if kind == "none":
        return images
    if kind == "resized":
        return resized_crop(images, generator)
    shifted = crop(images, generator)
    if kind == "crop":
        return shifted
    mirrored = flip(shifted, generator)
    return mirrored if kind == "crop-flip" else distort(mirrored, generator)


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


def resized_crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square part of each image, of 5/7 to all of its side (160 to 224 pixels), enlarged to it; half are mirrored."""
    size, down, across = torch.rand(3, len(images), device=images.device, generator=generator)
    size, mirror = 1 - (1 - _SMALLEST) * size, torch.where(_half(images, generator).flatten(), -1.0, 1.0)
    zero = torch.zeros_like(size)
    down, across = ((1 - size) * (2 * place - 1) for place in (down, across))
    matrix = torch.stack((mirror * size, zero, across, zero, size, down), dim=1).view(-1, 2, 3)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right with probability one half."""
    return torch.where(_half(images, generator), images.flip(-1), images)


def distort(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image warped, tinted and covered, each with probability one half: for networks that overfit."""
    for change in (warp, tint, cover):
        images = torch.where(_half(images, generator), change(images, generator), images)
    return images


def warp(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image turned, sheared and stretched; what comes in from outside is black."""
    turn, shear, tall, wide = _between(4, images, generator)
    angle = _TURN * turn
    cos, sin = angle.cos(), angle.sin()
    tall, wide, shear = (_STRETCH * tall).exp(), (_STRETCH * wide).exp(), _SHEAR * shear
    zero = torch.zeros_like(turn)
    rows = (wide * cos, tall * (shear * cos - sin), zero, wide * sin, tall * (shear * sin + cos), zero)
    matrix = torch.stack(rows, dim=1).view(-1, 2, 3)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def tint(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image brighter or darker, of more or less contrast, and of stronger or paler colours."""
    bright, contrast, colour = ((_TINT * change).exp().view(-1, 1, 1, 1) for change in _between(3, images, generator))
    grey = images.mean(dim=1, keepdim=True)
    coloured = grey + colour * (images - grey)
    middle = grey.mean(dim=(2, 3), keepdim=True)
    changed: Tensor = (bright * (middle + contrast * (coloured - middle))).clamp(0.0, 1.0)
    return changed


def cover(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image with a grey square somewhere on it, or partly on it."""
    n, _, height, width = images.shape
    rows, columns = (_covered(n, side, images, generator) for side in (height, width))
    return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0.5)


def _covered(n: int, side: int, images: Tensor, generator: torch.Generator) -> Tensor:
    """Along one side, (n, side): a stretch of its own for each image, around a place anywhere on it."""
    hole = max(side // _HOLE, 1)
    first = torch.randint(0, side, (n, 1), device=images.device, generator=generator) - hole // 2
    places = torch.arange(side, device=images.device)
    return (places >= first) & (places < first + hole)


def _between(count: int, images: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers from -1 to 1, (count, n)."""
    return 2 * torch.rand(count, len(images), device=images.device, generator=generator) - 1


def _half(images: Tensor, generator: torch.Generator) -> Tensor:
    """True for about every second image, to be spread over its pixels."""
    return torch.rand(len(images), 1, 1, 1, device=images.device, generator=generator) < 0.5


def _offsets(n: int, margin: int, images: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2 * margin + 1, (n, 1), device=images.device, generator=generator)
