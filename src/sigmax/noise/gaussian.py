"""Standard normal samples: by the ziggurat method on a CPU, by Box and Muller on a GPU.

Why not torch on a CPU: its seeds there have 32 bits, so blocks would meet; its 32-bit normals end at 5.77 sigma,
which a large image reaches; and their last digits depend on the CPU. On a GPU two words make a uniform of 64 bits,
so the tails reach 9.4 sigma; a length from it and an angle make two normals.
"""

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.noise import philox
from sigmax.noise.addressed import BLOCK, Address, BlockSource, empty
from sigmax.noise.sampler import Rows, Sampler, register
from sigmax.radius.noise import Gaussian


class GaussianSampler(Sampler):
    """Independent normal numbers of variance 1."""

    def fill(self, generator: np.random.Generator, out: npt.NDArray[np.float32]) -> None:
        """Numpy's ziggurat."""
        generator.standard_normal(dtype=np.float32, out=out)

    def numbers(self, streams: Tensor, samples: Tensor, count: int) -> Tensor:
        """Box and Muller over the words of Philox."""
        (high0, angle0, high1, angle1), (low0, low1, *_) = philox.words(streams, samples, count)
        pairs = [*pair(high0, low0, angle0), *pair(high1, low1, angle1)]
        return torch.stack(pairs, dim=2).flatten(1)[:, :count]

    def kernel(self, rows: Rows) -> None:
        """Samples, scales and adds in one pass."""
        from sigmax.noise import philox_kernel  # needs Triton, which torch has only with CUDA

        philox_kernel.fill(rows)


def pair(high: Tensor, low: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Two normals, of a uniform of 64 bits (never 0) and an angle of 32."""
    uniform = (high.float() + (low.float() + 0.5) * philox.SCALE) * philox.SCALE
    length = (-2 * uniform.log()).sqrt()
    turn = angle.float() * (2 * philox.SCALE) * math.pi
    return length * turn.cos(), length * turn.sin()


SAMPLER = GaussianSampler()
register(Gaussian.name, SAMPLER)


def block(*, seed: int, input_id: int, stage: str, index: int, shape: tuple[int, ...]) -> Tensor:
    """Block `index` of a stage on the CPU: 128 standard normal samples of `shape`, float32."""
    samples = empty((BLOCK, *shape))
    BlockSource(SAMPLER).fill(samples.numpy(), Address(seed, input_id, stage, index))
    return samples


def trial_copies(x: Tensor, sigma: float, count: int) -> Tensor:
    """Noisy copies of the inputs in turn to try a model on, at most 128; no vote on them is counted."""
    noise = empty((count, *x.shape[1:]))
    BlockSource(SAMPLER).fill(noise.numpy(), Address(0, 0, "trial", 0))
    return x[torch.arange(count) % len(x)] + sigma * noise
