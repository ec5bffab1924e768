"""The residual block, and the shortcuts that carry its input past it."""

from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input is carried by `shortcut`.

    Source: He et al. (2016), "Deep Residual Learning for Image Recognition", Fig. 2.
    """

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
    """Option A of the paper: every `stride`-th pixel, and channels of zeros on both sides. Nothing is learned.

    Both sides, because the public CIFAR-10 weights were trained so.
    """

    def __init__(self, channels: int, out_channels: int, *, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (out_channels - channels) // 2
        self.after = out_channels - channels - self.before

    def forward(self, features: Tensor) -> Tensor:
        """The input, subsampled and padded to the block's shape."""
        kept = features[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, self.before, self.after))


def projected_shortcut(channels: int, out_channels: int, *, stride: int) -> nn.Module:
    """Option B of the paper: a learned 1x1 convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False),
        nn.BatchNorm2d(out_channels),
    )


def start_for_relu(network: nn.Module) -> None:
    """Draw every convolution's weights so that the signal keeps its variance through the ReLUs (He, 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
