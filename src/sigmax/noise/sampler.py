"""What the engine needs of a noise distribution, and which sampler belongs to which.

# level: the sigma of a noise object, in units of the input; a sample of level 1 times sigma has level sigma
# grid: where a noise has one, inputs and noise are multiples of 1 / grid; k = grid * x is whole
# stream: four 32-bit words, the address of a stage of an input on a GPU (see `philox`)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.radius.noise import Noise, grid_of


class Sampler(ABC):
    """How one distribution is sampled: subclasses say how at level 1, the methods here scale and add.

    The CPU samples a block from a stream of bits (`addressed`), a GPU computes every number from its own counter
    (`philox`). The two are different noise; either depends on its address alone.
    """

    @abstractmethod
    def fill(self, generator: np.random.Generator, out: npt.NDArray[np.float32]) -> None:
        """Fill `out` with independent samples of level 1. Always consumes the same bits for the same shape."""

    @abstractmethod
    def numbers(self, streams: Tensor, samples: Tensor, count: int) -> Tensor:
        """`count` numbers of level 1 of sample `samples[i]` of stream `streams[i]`, (rows, count) float32, in torch.

        This is the definition of the GPU's noise, on any device. streams: (rows, 4); samples: (rows,); both int64.
        """

    @abstractmethod
    def kernel(self, rows: "Rows") -> None:
        """`write` as one pass over a batch on a GPU, up to rounding the same as by `numbers`."""

    @final
    def add_to(self, x: npt.NDArray[np.float32], noise: Noise, samples: npt.NDArray[np.float32]) -> None:
        """Turn samples of level 1 into noisy copies of x, in place."""
        # Two operations, never a fused one: their result is the same on every machine and for every batch.
        samples *= np.float32(noise.sigma)
        grid = grid_of(noise)
        if grid is None:
            samples += x
        else:
            _add_on_grid(torch.from_numpy(samples), torch.from_numpy(x), grid)

    @final
    def levels(self, noises: Sequence[Noise]) -> Tensor:
        """The levels of several noises, as `write` takes them."""
        return torch.tensor([noise.sigma for noise in noises], dtype=torch.float32)

    @final
    def write(self, rows: "Rows") -> None:
        """Write the noisy copies that are described."""
        if rows.out.device.type == "cuda":
            self.kernel(rows)
        else:
            noise = self.numbers(rows.streams[rows.items], rows.samples, rows.out.shape[1])
            noise.mul_(rows.levels[rows.items][:, None])
            x = rows.x[rows.positions[rows.items]]
            rows.out.copy_(noise.add_(x) if rows.grid is None else _add_on_grid(noise, x, rows.grid))


def _add_on_grid(noise: Tensor, x: Tensor, grid: int) -> Tensor:
    """(k + round(grid * noise)) / grid, in place; all but the division is done in whole numbers, which are exact.

    So the result depends on the sum alone. Noise is rounded by itself: a sum rounded afterwards would depend on k.
    """
    return noise.mul_(grid).round_().add_((x * grid).round_()).div_(grid)


class Rows(NamedTuple):
    """Noisy copies to write: row r of `out` is sample `samples[r]` of item `items[r]`.

    All on one device, contiguous.
    """

    out: Tensor  # (rows, numbers) float32
    x: Tensor  # (inputs, numbers) float32
    streams: Tensor  # (items, 4)
    levels: Tensor  # (items,) float32
    positions: Tensor  # (items,) of each item's input in x
    items: Tensor  # (rows,)
    samples: Tensor  # (rows,)
    grid: int | None  # of all the noises


_samplers: dict[str, Sampler] = {}


def register(name: str, sampler: Sampler) -> None:
    """Sample every noise object of this name by `sampler`."""
    if name in _samplers:
        raise RequestError(f"the noise {name!r} has a sampler already; choose another name")
    _samplers[name] = sampler


def sampler_of(noise: Noise) -> Sampler:
    """The sampler registered for the noise's name."""
    if noise.name not in _samplers:
        raise RequestError(
            f"there is no sampler for the noise {noise.name!r}; known are: {', '.join(_samplers)}. "
            "Add one with sigmax.noise.register(name, sampler)"
        )
    return _samplers[noise.name]
