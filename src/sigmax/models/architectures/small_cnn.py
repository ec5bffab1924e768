"""A convolutional network small enough to cast hundreds of thousands of votes a second on a laptop's CPU.

No batch statistics. ReLUs work in place, because at this speed it is fresh memory that takes the time.
"""

from torch import Tensor, nn

_SMALLEST_SIDE = 4  # pixels; below this there is no shape left for a convolution to see


class SmallCNN(nn.Module):
    """Logits (n, classes) of images (n, *input_shape) of any size; `width`: channels at full resolution."""

    def __init__(self, *, classes: int, input_shape: tuple[int, int, int], width: int = 16) -> None:
        super().__init__()
        channels, *sides = input_shape
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
        channels = width
        while max(sides) > _SMALLEST_SIDE:
            layers += [nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
            channels *= 2
            sides = [(side + 1) // 2 for side in sides]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.hidden = nn.Linear(channels * sides[0] * sides[1], 4 * width)
        self.linear = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        logits: Tensor = self.linear(self.hidden(self.features(images)).relu_())
        return logits
