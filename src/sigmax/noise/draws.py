"""Addressed Gaussian noise: every draw has an address and always the same value.

# seed, input id, stage, block: the address; a block is 128 draws of the input's shape

A hash turns the address into the whole state of a generator (SFC64), and numpy draws the block from that by the
ziggurat method. Two addresses never share a state, short of a collision of SHAKE-128. Why not torch: its seeds on a
CPU have 32 bits, so blocks would meet; its 32-bit normals end at 5.77 sigma, which a large image reaches; and their
last digits depend on the CPU. The noise is made on the CPU whichever device votes, so it is the same on all.
"""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sigmax.errors import RequestError

BLOCK = 128
GENERATOR = "shake128-sfc64/128"  # named in a run's plan; change it whenever an address would give other noise
_WORD = 2**64


def block(*, seed: int, input_id: int, stage: str, index: int, shape: Sequence[int]) -> Tensor:
    """Block `index` of a stage: 128 independent standard normal draws of `shape`, float32."""
    return Source().fill(empty((BLOCK, *shape)), seed, input_id, stage, index)


def empty(shape: Sequence[int]) -> Tensor:
    """Room for noise: 32-bit floats on the CPU, whatever torch's defaults were set to."""
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")


class Source:
    """Draws blocks one after the other; every thread needs its own."""

    def __init__(self) -> None:
        self._bits = np.random.SFC64(0)
        self._generator = np.random.Generator(self._bits)

    def fill(self, out: Tensor, seed: int, input_id: int, stage: str, index: int) -> Tensor:
        """Write a block into `out` (128, ...), which must be contiguous 32-bit floats on the CPU."""
        address = struct.pack("<QQQ", seed, input_id, index) + stage.encode()
        state = np.frombuffer(hashlib.shake_128(address).digest(24) + _COUNTER, dtype="<u8").astype(np.uint64)
        self._bits.state = {
            "bit_generator": "SFC64",
            "state": {"state": state},
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._generator.standard_normal(dtype=np.float32, out=out.numpy())
        return out


_COUNTER = struct.pack("<Q", 1)  # the fourth word of the state, as SFC64 begins


def check_word(name: str, value: int) -> int:
    """A seed or input id, checked to fit the address."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < _WORD:
        raise RequestError(f"{name} must be a whole number from 0 to 2**64 - 1; got {value!r}")
    return int(value)
