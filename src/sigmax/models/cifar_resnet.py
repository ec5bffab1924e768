"""The thin residual networks for CIFAR-10 of He et al. (2016), Sec. 4.2: ResNet-20, -56 and -110.

A depth of 6n + 2 means three stages of n blocks with 16, 32 and 64 channels, and shortcuts without
parameters (option A). Parameter names follow the public CIFAR-10 weights: conv1, bn1, layer1.0.conv1, ...,
linear.
"""

from torch import Tensor, nn
from torch.nn import functional

from sigmax.models.blocks import BasicBlock, PaddedShortcut, start_for_relu


class CifarResNet(nn.Module):
    """Logits (n, classes) of images (n, *input_shape); 32x32 is what it was made for, other sizes work."""

    def __init__(self, *, depth: int, classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, blocks, stride=1)
        self.layer2 = _stage(16, 32, blocks, stride=2)
        self.layer3 = _stage(32, 64, blocks, stride=2)
        self.linear = nn.Linear(64, classes)
        start_for_relu(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        features = self.layer3(self.layer2(self.layer1(features)))
        logits: Tensor = self.linear(features.mean(dim=(2, 3)))
        return logits


def resnet20(*, classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
    """ResNet-20: 0.27 million parameters."""
    return CifarResNet(depth=20, classes=classes, input_shape=input_shape)


def resnet56(*, classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
    """ResNet-56: 0.85 million parameters."""
    return CifarResNet(depth=56, classes=classes, input_shape=input_shape)


def resnet110(*, classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
    """ResNet-110, the field's usual base model on CIFAR-10: 1.7 million parameters."""
    return CifarResNet(depth=110, classes=classes, input_shape=input_shape)


def _stage(channels: int, out_channels: int, blocks: int, *, stride: int) -> nn.Sequential:
    first = nn.Identity() if stride == 1 else PaddedShortcut(channels, out_channels, stride=stride)
    rest = (BasicBlock(out_channels, out_channels, stride=1, shortcut=nn.Identity()) for _ in range(blocks - 1))
    return nn.Sequential(BasicBlock(channels, out_channels, stride=stride, shortcut=first), *rest)
