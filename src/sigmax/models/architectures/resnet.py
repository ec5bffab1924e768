"""Residual networks: ResNet-18 and the thin ResNet-20, -56 and -110 for small images, ResNet-50 for photographs.

Source: He et al. (2016), "Deep Residual Learning for Image Recognition". Parameter names follow public weights, for
CIFAR-10 (conv1, bn1, layer1.0.conv1, ..., linear) and ImageNet (..., layer1.0.downsample.0, ..., fc), and so does the
place where bottlenecks halve the resolution, their 3x3 convolution.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels inside a bottleneck, bottlenecks
_EXPANSION = 4  # channels of a bottleneck's output, in channels inside it
Shortcut = Callable[[int, int], nn.Module]  # past a block that halves the resolution, by its channels in and out


def keep_variance(network: nn.Module) -> None:
    """Sample the convolutions' weights so that the signal keeps its variance through the ReLUs (He et al., 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input is carried by `shortcut` (Fig. 2 of the paper)."""

    def __init__(self, channels: int, out_channels: int, *, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = shortcut

    def forward(self, features: Tensor) -> Tensor:
        """The block's features, at 1 / stride of the resolution."""
        inner = functional.relu(self.bn1(self.conv1(features)), inplace=True)
        return functional.relu(self.bn2(self.conv2(inner)) + self.shortcut(features), inplace=True)


class PaddedShortcut(nn.Module):
    """Option A: every second pixel, and channels of zeros on both sides, as public weights have it."""

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.before = (out_channels - channels) // 2
        self.after = out_channels - channels - self.before

    def forward(self, features: Tensor) -> Tensor:
        """The input, subsampled and padded to the block's shape."""
        return functional.pad(features[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def projected_shortcut(channels: int, out_channels: int) -> nn.Module:
    """Option B of the paper: a learned 1x1 convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, 1, stride=2, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class _ResNet(nn.Module):
    """Logits (n, classes): a 3x3 stem that keeps the resolution, stages that halve it but for the first, their mean."""

    def __init__(self, *, channels: int, classes: int, widths: Sequence[int], blocks: int, shortcut: Shortcut) -> None:
        super().__init__()
        before, self.stages = widths[0], len(widths)
        self.conv1 = nn.Conv2d(channels, before, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(before)
        for stage, width in enumerate(widths):
            past = shortcut(before, width) if stage else nn.Identity()
            first = BasicBlock(before, width, stride=2 if stage else 1, shortcut=past)
            rest = (BasicBlock(width, width, stride=1, shortcut=nn.Identity()) for _ in range(blocks - 1))
            self.add_module(f"layer{stage + 1}", nn.Sequential(first, *rest))
            before = width
        self.linear = nn.Linear(before, classes)
        keep_variance(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        for stage in range(1, self.stages + 1):
            features = getattr(self, f"layer{stage}")(features)
        logits: Tensor = self.linear(features.mean(dim=(2, 3)))
        return logits


class ResNet18(_ResNet):
    """Logits (n, classes) of images (n, *input_shape) of any size; `width`: channels of the first stage."""

    def __init__(self, *, classes: int, input_shape: tuple[int, int, int], width: int = 64) -> None:
        widths = [width, 2 * width, 4 * width, 8 * width]
        super().__init__(channels=input_shape[0], classes=classes, widths=widths, blocks=2, shortcut=projected_shortcut)


class CappedResNet18(_ResNet):
    """The same with no more than `most` channels in any stage: most of ResNet-18's weights are in its widest ones.

    5.2 million parameters for 83% of the multiplications. `shrink`: images are averaged over squares of that side
    first; 2 makes a quarter of the multiplications, for routers, whose noise drowns what is finer.
    """

    def __init__(
        self,
        *,
        classes: int,
        input_shape: tuple[int, int, int],
        width: int = 64,
        most: int = 256,
        shrink: int = 1,
    ) -> None:
        if shrink < 1 or min(input_shape[1:]) < shrink:
            raise RequestError(f"shrink must be from 1 to the image's smaller side; got {shrink} for {input_shape}")
        widths = [min(more * width, most) for more in (1, 2, 4, 8)]
        super().__init__(channels=input_shape[0], classes=classes, widths=widths, blocks=2, shortcut=projected_shortcut)
        self.shrink = shrink

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        return super().forward(images if self.shrink == 1 else functional.avg_pool2d(images, self.shrink))


def thin_resnet(depth: int) -> Callable[..., nn.Module]:
    """The builder of a network of Sec. 4.2 for 32x32 images: 20, 56 or 110 layers; other sizes of images work.

    A depth of 6n + 2 means three stages of n blocks with 16, 32 and 64 channels, and shortcuts without parameters.
    """

    def build(*, classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
        how: dict[str, Any] = {"widths": (16, 32, 64), "blocks": (depth - 2) // 6, "shortcut": PaddedShortcut}
        return _ResNet(channels=input_shape[0], classes=classes, **how)

    return build


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around which the input is carried, by a 1x1 convolution where shapes differ."""

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        out_channels = _EXPANSION * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, features: Tensor) -> Tensor:
        """The block's features, at 1 / stride of the resolution."""
        inner = functional.relu(self.bn1(self.conv1(features)), inplace=True)
        inner = functional.relu(self.bn2(self.conv2(inner)), inplace=True)
        return functional.relu(self.bn3(self.conv3(inner)) + self.downsample(features), inplace=True)


class ResNet50(nn.Module):
    """Logits (n, classes) of images (n, *input_shape): 25.6 million parameters at 1,000 classes, made for 224x224."""

    def __init__(self, *, classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(input_shape[0], 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, (width, blocks) in enumerate(_STAGES):
            first = Bottleneck(before, width, stride=2 if stage else 1)
            before = _EXPANSION * width
            rest = (Bottleneck(before, width, stride=1) for _ in range(blocks - 1))
            self.add_module(f"layer{stage + 1}", nn.Sequential(first, *rest))
        self.fc = nn.Linear(before, classes)
        keep_variance(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        features = functional.max_pool2d(features, 3, stride=2, padding=1)
        for stage in range(1, len(_STAGES) + 1):
            features = getattr(self, f"layer{stage}")(features)
        logits: Tensor = self.fc(features.mean(dim=(2, 3)))
        return logits
