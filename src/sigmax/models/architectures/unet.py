"""A UNet that removes noise from images: what `sigmax train denoiser` trains.

# x noisy pixels on [0, 1]; u = 2x - 1; s = 2 sigma, the noise on u; d the spread of clean images on the scale of u

The network F sees the image scaled to variance 1 and how noisy it is, and says what to add to a share of the image:

    clean u = c_skip u + c_out F(c_in u, log s);  c_in = 1 / sqrt(s^2 + d^2), c_skip = (d c_in)^2, c_out = s d c_in

so that F has the same task at every noise: its input and the answer asked of it have variance 1.
Source: Karras et al. (2022), "Elucidating the Design Space of Diffusion-Based Generative Models", Sec. 5. The
network is that of Ho et al. (2020) with the residual block of Dhariwal & Nichol (2021).
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError

_LEVEL_SCALE = 250.0  # spreads log s over the waves of the embedding, as timesteps are
_LONGEST_WAVE = 10_000.0
_GROUPS = 32  # of channels normalised together, where the number of channels allows


class UNet(nn.Module):
    """Clean images (n, *input_shape) of noisy ones, pixels on [0, 1]; called as `unet(noisy, sigma)`.

    `sigma` is one number, or a tensor (n,) of one an image; what comes out is not clamped. `width`: channels at full
    resolution; `multipliers`: of these at each resolution; `blocks`: residual blocks at each; `attention`: the sides,
    in pixels, at which positions attend to each other, in heads of `head_channels`; `spread`: standard deviation of
    clean pixels. 6.9 million parameters; with width=128, multipliers=(1, 2, 2, 2), blocks=3, attention=(16, 8) 52.5
    million.
    """

    takes_sigma = True

    def __init__(
        self,
        *,
        input_shape: tuple[int, int, int],
        width: int = 64,
        multipliers: Sequence[int] = (1, 2, 2),
        blocks: int = 2,
        attention: Sequence[int] = (8,),
        head_channels: int = 64,
        dropout: float = 0.0,
        spread: float = 0.25,
    ) -> None:
        super().__init__()
        _check_sizes(width, multipliers, blocks, spread)
        channels, *sides = input_shape
        self.width, self.spread = width, 2 * spread
        known = 4 * width
        self.embed = nn.Sequential(nn.Linear(width, known), nn.SiLU(), nn.Linear(known, known), nn.SiLU())
        self.first = nn.Conv2d(channels, width, 3, padding=1)

        def step(inside: int, outside: int, side: int) -> "_Step":
            return _Step(inside, outside, known, head_channels if side in attention else None, dropout)

        levels = [(width * more, side) for more, side in zip(multipliers, _sides(max(sides)), strict=False)]
        deepest = levels[-1][0]
        heads = head_channels if attention else None
        self.down, skips = _layers_down(levels, width, blocks, step)
        self.middle = nn.ModuleList(_Step(deepest, deepest, known, attended, dropout) for attended in (heads, None))
        self.up = _layers_up(levels, skips, blocks, step)
        now = levels[0][0]
        self.last = nn.Sequential(group_norm(now), nn.SiLU(), zeroed(nn.Conv2d(now, channels, 3, padding=1)))

    def forward(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """The images without their noise."""
        level = torch.as_tensor(sigma, dtype=noisy.dtype, device=noisy.device).reshape(-1) * 2
        scale = (level**2 + self.spread**2).rsqrt()
        u = 2 * noisy - 1
        found = self._found(u * column(scale), level)
        clean = u * column((self.spread * scale) ** 2) + found * column(level * self.spread * scale)
        return (clean + 1) / 2

    def _found(self, images: Tensor, level: Tensor) -> Tensor:
        """What F says: images of variance 1, and the noise on them, one for all or one each."""
        known = self.embed(waves(level.clamp(min=1e-9).log() * _LEVEL_SCALE, self.width))
        features = self.first(images)
        skips = [features]
        for layer in self.down:
            features = layer(features, known) if isinstance(layer, _Step) else layer(features)
            skips.append(features)
        for layer in self.middle:
            features = layer(features, known)
        for layer in self.up:
            if isinstance(layer, _Step):
                features = layer(torch.cat([features, skips.pop()], dim=1), known)
            else:
                features = layer(features, skips[-1].shape[-2:])
        found: Tensor = self.last(features)
        return found


Step = Callable[[int, int, int], nn.Module]  # a block by its channels in and out, and the side of its images
Levels = Sequence[tuple[int, int]]  # channels and side of each resolution, the largest first


def _sides(side: int) -> Iterator[int]:
    """The side at full resolution and after each strided convolution."""
    while True:
        yield side
        side = (side + 1) // 2


def _layers_down(levels: Levels, width: int, blocks: int, step: Step) -> tuple[nn.ModuleList, list[int]]:
    """The layers from the largest resolution to the smallest, and the channels of what each leaves behind."""
    layers, skips, now = nn.ModuleList(), [width], width
    for level, (channels, side) in enumerate(levels):
        if level:
            layers.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
            skips.append(now)
        for _ in range(blocks):
            layers.append(step(now, channels, side))
            now = channels
            skips.append(now)
    return layers, skips


def _layers_up(levels: Levels, skips: Sequence[int], blocks: int, step: Step) -> nn.ModuleList:
    """The layers back, each of whose blocks takes up what was left behind."""
    layers, left, now = nn.ModuleList(), list(skips), levels[-1][0]
    for level, (channels, side) in reversed(list(enumerate(levels))):
        for _ in range(blocks + 1):
            layers.append(step(now + left.pop(), channels, side))
            now = channels
        if level:
            layers.append(_Enlarge(now))
    return layers


class _Step(nn.Module):
    """A residual block, and attention behind it where heads have any channels."""

    def __init__(self, inside: int, outside: int, known: int, head_channels: int | None, dropout: float) -> None:
        super().__init__()
        self.residual = Residual(inside, outside, known, dropout=dropout)
        self.attention = None if head_channels is None else Attention(outside, head_channels)

    def forward(self, features: Tensor, known: Tensor) -> Tensor:
        features = self.residual(features, known)
        return features if self.attention is None else self.attention(features)


class _Enlarge(nn.Module):
    """To the next larger resolution, which need not be twice this one: 7 pixels may come from 13 or 14."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, features: Tensor, size: torch.Size) -> Tensor:
        enlarged: Tensor = self.conv(functional.interpolate(features, size=tuple(size), mode="nearest"))
        return enlarged


def waves(level: Tensor, width: int) -> Tensor:
    """Cosines and sines of the level (n,) at `width` / 2 frequencies, (n, width)."""
    half = width // 2
    indices = torch.arange(half, dtype=torch.float32, device=level.device)
    angles = level.float()[:, None] * torch.exp(indices * (-math.log(_LONGEST_WAVE) / half))
    return torch.cat([angles.cos(), angles.sin()], dim=1).to(level.dtype)


def _check_sizes(width: int, multipliers: Sequence[int], blocks: int, spread: float) -> None:
    if not (type(width) is int and width >= 2 and width % 2 == 0):
        raise RequestError(f"a unet's width must be an even number of channels, got {width!r}")
    if not multipliers or not all(type(m) is int and m >= 1 for m in multipliers):
        raise RequestError(f"a unet's multipliers must be whole numbers such as (1, 2, 2), got {multipliers!r}")
    if not (type(blocks) is int and blocks >= 1):
        raise RequestError(f"a unet has a whole number of blocks at each resolution, at least 1; got {blocks!r}")
    if not 0 < spread < math.inf:
        raise RequestError(f"the spread of clean pixels must be positive and finite, got {spread!r}")


class Residual(nn.Module):
    """Two convolutions added to their input; the noise scales and shifts between them (Dhariwal & Nichol, 2021)."""

    def __init__(self, inside: int, outside: int, known: int, *, dropout: float) -> None:
        super().__init__()
        self.norm1, self.conv1 = group_norm(inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.modulate = nn.Linear(known, 2 * outside)
        self.norm2, self.conv2 = group_norm(outside), zeroed(nn.Conv2d(outside, outside, 3, padding=1))
        self.dropout = nn.Dropout(dropout)
        self.shortcut = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1)

    def forward(self, features: Tensor, known: Tensor) -> Tensor:
        """Features (n, outside, H, W); `known` is (n, known), or (1, known) for all images alike."""
        scale, shift = self.modulate(known)[:, :, None, None].chunk(2, dim=1)
        inner = self.conv1(functional.silu(self.norm1(features)))
        inner = functional.silu(self.norm2(inner) * (1 + scale) + shift)
        changed: Tensor = self.shortcut(features) + self.conv2(self.dropout(inner))
        return changed


class Attention(nn.Module):
    """Every position looks at every other, in heads of so many channels (one head where that does not divide)."""

    def __init__(self, channels: int, head_channels: int) -> None:
        super().__init__()
        if not (type(head_channels) is int and head_channels >= 1):
            raise RequestError(f"head_channels must be a whole number of at least 1, got {head_channels!r}")
        self.heads = channels // head_channels if channels % head_channels == 0 else 1
        self.norm = group_norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = zeroed(nn.Conv2d(channels, channels, 1))

    def forward(self, features: Tensor) -> Tensor:
        """The features, and what each position found worth adding."""
        n, channels, height, width = features.shape
        parts = self.qkv(self.norm(features)).reshape(n, 3, self.heads, channels // self.heads, height * width)
        query, key, value = parts.transpose(-1, -2).unbind(dim=1)
        found = functional.scaled_dot_product_attention(query, key, value)
        changed: Tensor = features + self.out(found.transpose(-1, -2).reshape(n, channels, height, width))
        return changed


def group_norm(channels: int) -> nn.GroupNorm:
    """Group normalisation in as many groups, up to 32, as divide the channels."""
    return nn.GroupNorm(math.gcd(_GROUPS, channels), channels)


def zeroed(layer: nn.Conv2d) -> nn.Conv2d:
    """The layer with weights of zero: a block that ends in it starts as doing nothing."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def column(values: Tensor) -> Tensor:
    """A number for each image, (n,), as (n, 1, 1, 1), to multiply images by; or one for all, (1,)."""
    return values.reshape(-1, 1, 1, 1)
