"""What a UNet is made of: residual blocks that know how noisy the image is, and attention between positions."""

import math

from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError

_GROUPS = 32  # of channels normalised together, where the number of channels allows


class Residual(nn.Module):
    """Two 3x3 convolutions added to their input; what is known of the noise scales and shifts between them.

    Source: Dhariwal & Nichol (2021), "Diffusion Models Beat GANs on Image Synthesis", Sec. 3.1.
    """

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
