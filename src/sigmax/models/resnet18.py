"""ResNet-18 for small images: four stages of two blocks behind a 3x3 stem that keeps the resolution."""

from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError
from sigmax.models.blocks import BasicBlock, projected_shortcut, start_for_relu


class ResNet18(nn.Module):
    """Logits (n, classes) of images (n, *input_shape), of any number of channels and any size.

    `width` is the number of channels of the first stage; each later stage doubles it. At 64, the default, it
    has 11.2 million parameters. A wide, shallow network like this keeps a GPU busier than a thin, deep one.
    """

    def __init__(self, *, classes: int, input_shape: tuple[int, int, int], width: int = 64) -> None:
        super().__init__()
        first, second, third, fourth = self.widths(width)
        self.conv1 = nn.Conv2d(input_shape[0], first, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        self.layer1 = _stage(first, first, stride=1)
        self.layer2 = _stage(first, second, stride=2)
        self.layer3 = _stage(second, third, stride=2)
        self.layer4 = _stage(third, fourth, stride=2)
        self.linear = nn.Linear(fourth, classes)
        start_for_relu(self)

    def widths(self, width: int) -> tuple[int, int, int, int]:
        """The channels of the four stages."""
        return width, 2 * width, 4 * width, 8 * width

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        features = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        logits: Tensor = self.linear(features.mean(dim=(2, 3)))
        return logits


class CappedResNet18(ResNet18):
    """The same with no more than `most` channels in any stage: most of ResNet-18's weights are in its widest ones.

    At 64 and 256, the defaults, it has 5.2 million parameters for 83% of the multiplications. `shrink`: images are
    averaged over squares of that side first. Two makes a quarter of the multiplications; it is meant for routers,
    whose noise drowns what is finer.
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
        self.most, self.shrink = most, shrink
        super().__init__(classes=classes, input_shape=input_shape, width=width)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        return super().forward(images if self.shrink == 1 else functional.avg_pool2d(images, self.shrink))

    def widths(self, width: int) -> tuple[int, int, int, int]:
        """The channels of the four stages."""
        first, second, third, fourth = (min(one, self.most) for one in super().widths(width))
        return first, second, third, fourth


def _stage(channels: int, out_channels: int, *, stride: int) -> nn.Sequential:
    first = nn.Identity() if stride == 1 else projected_shortcut(channels, out_channels, stride=stride)
    return nn.Sequential(
        BasicBlock(channels, out_channels, stride=stride, shortcut=first),
        BasicBlock(out_channels, out_channels, stride=1, shortcut=nn.Identity()),
    )
