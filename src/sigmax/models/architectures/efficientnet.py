"""EfficientNet-Lite0 for photographs: inverted residual blocks without squeeze-and-excitation, ReLU6 throughout.

Source: Tan and Le (2019), "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", Table 1, in the
Lite variant of its authors. Parameter names follow the public weights: _conv_stem, _bn0, _blocks.0._depthwise_conv,
..., _fc. Those weights take inputs normalised by mean 0.5 and std 0.5 (the normalisation "half").
"""

from torch import Tensor, nn
from torch.nn import functional

from sigmax.models.architectures.resnet import keep_variance

_EPS = 1e-3  # of every batch norm, as in the public weights
_STEM, _HEAD = 32, 1280  # channels before and after the blocks
_STAGES = (  # times the channels are expanded, kernel, stride of the first block, channels, blocks
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class SameConv2d(nn.Conv2d):
    """A convolution without bias whose output has ceil(side / stride) pixels a side, whatever the input's side.

    An odd zero goes to the right and to the bottom (TensorFlow's "same" padding).
    """

    def __init__(self, channels: int, out_channels: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, out_channels, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """The features, at 1 / stride of the resolution."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        tall, wide = (max(-(-side // stride) * stride - stride + kernel - side, 0) for side in features.shape[2:])
        if tall % 2 or wide % 2:
            padded = functional.pad(features, (wide // 2, wide - wide // 2, tall // 2, tall - tall // 2))
            return functional.conv2d(padded, self.weight, None, self.stride, 0, 1, self.groups)
        # Padding by the convolution itself saves a copy of the features.
        return functional.conv2d(features, self.weight, None, self.stride, (tall // 2, wide // 2), 1, self.groups)


class InvertedResidual(nn.Module):
    """Channels expanded by a 1x1 convolution, filtered one by one, projected back; added to an input of its shape."""

    def __init__(self, channels: int, out_channels: int, *, expand: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = expand * channels
        self.expands, self.adds = expand > 1, stride == 1 and channels == out_channels
        if self.expands:
            self._expand_conv = SameConv2d(channels, inner, 1)
            self._bn0 = nn.BatchNorm2d(inner, eps=_EPS)
        self._depthwise_conv = SameConv2d(inner, inner, kernel, stride=stride, groups=inner)
        self._bn1 = nn.BatchNorm2d(inner, eps=_EPS)
        self._project_conv = SameConv2d(inner, out_channels, 1)
        self._bn2 = nn.BatchNorm2d(out_channels, eps=_EPS)

    def forward(self, features: Tensor) -> Tensor:
        """The block's features, at 1 / stride of the resolution."""
        inner = features
        if self.expands:
            inner = functional.relu6(self._bn0(self._expand_conv(inner)), inplace=True)
        inner = functional.relu6(self._bn1(self._depthwise_conv(inner)), inplace=True)
        projected: Tensor = self._bn2(self._project_conv(inner))
        return projected + features if self.adds else projected


class EfficientNetLite0(nn.Module):
    """Logits (n, classes) of images (n, *input_shape): 4.7 million parameters at 1,000 classes, made for 224x224."""

    def __init__(self, *, classes: int, input_shape: tuple[int, int, int], dropout: float = 0.2) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(input_shape[0], _STEM, 3, stride=2)
        self._bn0 = nn.BatchNorm2d(_STEM, eps=_EPS)
        blocks, before = [], _STEM
        for expand, kernel, first_stride, channels, count in _STAGES:
            for stride in (first_stride, *[1] * (count - 1)):
                blocks.append(InvertedResidual(before, channels, expand=expand, kernel=kernel, stride=stride))
                before = channels
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv2d(before, _HEAD, 1)
        self._bn1 = nn.BatchNorm2d(_HEAD, eps=_EPS)
        self._dropout = nn.Dropout(dropout)
        self._fc = nn.Linear(_HEAD, classes)
        keep_variance(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu6(self._bn0(self._conv_stem(images)), inplace=True)
        for block in self._blocks:
            features = block(features)
        features = functional.relu6(self._bn1(self._conv_head(features)), inplace=True)
        logits: Tensor = self._fc(self._dropout(features.mean(dim=(2, 3))))
        return logits
