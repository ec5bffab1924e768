"""Problems whose true radii are known: half-spaces in the plane, as images of 1 x 1 x 2 pixels."""

import numpy as np
import torch
from torch import nn

import sigmax as sx

SIGMA = 0.1


class Halfplane(nn.Module):
    """Class 1 where pixel `axis` is above `edge`; under any noise the smoothed class changes exactly there."""

    def __init__(self, axis: int, edge: float) -> None:
        super().__init__()
        self.axis = axis
        self.register_buffer("edge", torch.tensor(edge))

    def extra_repr(self) -> str:
        return f"axis={self.axis}"

    def forward(self, batch):
        above = 20 * (batch.flatten(1)[:, self.axis] - self.edge)
        return torch.stack([-above, above], 1)


def halfplane(axis=0, edge=0.5):
    return sx.Smoothed(Halfplane(axis, edge), sigma=SIGMA, classes=2, batch=4096)


def images(count: int, *, first: float, second: float = 0.5) -> sx.data.Dataset:
    """Copies of one image: `first` and `second` are its two pixels. Ids differ, so noise does."""
    pixels = np.broadcast_to(np.array([first, second], dtype=np.float32), (count, 1, 1, 2))
    return sx.data.as_dataset((np.ascontiguousarray(pixels), np.zeros(count, dtype=np.int64)), classes=2)
