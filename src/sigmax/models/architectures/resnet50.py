"""ResNet-50 for photographs (He et al., 2016, Table 1), the usual base model of publications on ImageNet.

Bottlenecks halve the resolution in their 3x3 convolution, as public weights do. Parameter names follow those weights:
conv1, bn1, layer1.0.conv1, ..., layer1.0.downsample.0, ..., fc.
"""

from torch import Tensor, nn
from torch.nn import functional

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels inside a bottleneck, bottlenecks
_EXPANSION = 4  # channels of a bottleneck's output, in channels inside it


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
        for module in self.modules():  # the signal keeps its variance through the ReLUs (He et al., 2015)
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        features = functional.max_pool2d(features, 3, stride=2, padding=1)
        for stage in range(1, len(_STAGES) + 1):
            features = getattr(self, f"layer{stage}")(features)
        logits: Tensor = self.fc(features.mean(dim=(2, 3)))
        return logits
