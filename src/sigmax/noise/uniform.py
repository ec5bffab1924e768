"""Uniform samples: 2^23 equal cells fill [-1, 1], and a sample is the midpoint of one of them.

# j whole, from 0 to 2^23 - 1, each as likely; the sample is (2j + 1) / 2^23 - 1

Every such number is a 32-bit float, so none is rounded, and they lie symmetrically about 0. What discretisation means:
moved by k cells, the set keeps all but k of its 2^23 values, and k / 2^23 is the move as a share of 2. So votes under
this noise have the theorem of uniform noise exactly, for moves by whole cells. (Midpoints make the cells fill
[-1, 1]: without the half cell the noise would be less wide than it claims.) The integers are the same on every device,
and so, unlike normal numbers, are the samples.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.noise import philox
from sigmax.noise.sampler import Rows, Sampler, register
from sigmax.radius.uniform import Uniform

BITS = 23  # of j
CELLS = 2**BITS


class UniformSampler(Sampler):
    """Independent numbers, uniform on [-1, 1]."""

    def fill(self, generator: np.random.Generator, out: npt.NDArray[np.float32]) -> None:
        """The upper bits of numpy's 24: all steps are exact in 32-bit floats."""
        generator.random(dtype=np.float32, out=out)
        out *= CELLS
        np.floor(out, out=out)
        out += 0.5 - CELLS / 2
        out *= 2 / CELLS

    def numbers(self, streams: Tensor, samples: Tensor, count: int) -> Tensor:
        """The upper bits of one word of Philox each."""
        quads = torch.arange(-(-count // 4), device=streams.device).expand(len(streams), -1)
        rest = [part[:, None].expand_as(quads) for part in (samples, streams[:, 2], streams[:, 3])]
        words = torch.stack(philox.integers([quads, *rest], (streams[:, 0:1], streams[:, 1:2])), dim=2)
        odd = 2 * (words.flatten(1)[:, :count] >> (32 - BITS)) + 1 - CELLS
        numbers: Tensor = odd.float() / CELLS
        return numbers

    def kernel(self, rows: Rows) -> None:
        """Samples, scales and adds in one pass."""
        from sigmax.noise import uniform_kernel  # needs Triton, which torch has only with CUDA

        uniform_kernel.fill(rows)


SAMPLER = UniformSampler()
register(Uniform.name, SAMPLER)
