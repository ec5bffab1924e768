"""Addressed Gaussian noise: every draw has an address and always the same value.

# seed, input id, stage, block: the address; a block is 128 draws of the input's shape

A hash turns the address into the whole state of a generator (SFC64), and numpy draws the block from that by the
ziggurat method. Two addresses never share a state, short of a collision of SHAKE-128. Why not torch: its seeds on a
CPU have 32 bits, so blocks would meet; its 32-bit normals end at 5.77 sigma, which a large image reaches; and their
last digits depend on the CPU. A GPU makes its own noise, from the same kind of address: see `philox`.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.errors import RequestError

BLOCK = 128
GENERATOR = "shake128-sfc64/128"  # named in a run's plan; change it whenever an address would give other noise
_WORD = 2**64


def block(*, seed: int, input_id: int, stage: str, index: int, shape: Sequence[int]) -> Tensor:
    """Block `index` of a stage: 128 independent standard normal draws of `shape`, float32."""
    return Source().fill(empty((BLOCK, *shape)), Address(seed, input_id, stage, index))


class Address(NamedTuple):
    """Where a block of noise comes from."""

    seed: int
    input_id: int
    stage: str
    block: int

    def state(self) -> npt.NDArray[np.uint64]:
        """The generator's whole state: three hashed words, and the counter SFC64 begins with."""
        told = struct.pack("<QQQ", self.seed, self.input_id, self.block) + self.stage.encode()
        return np.frombuffer(hashlib.shake_128(told).digest(24) + struct.pack("<Q", 1), dtype="<u8").astype(
            np.uint64
        )


def empty(shape: Sequence[int]) -> Tensor:
    """Room for noise: 32-bit floats on the CPU, whatever torch's defaults were set to."""
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")


class Source:
    """Draws from blocks, and goes on within one where it left off; every thread needs its own."""

    def __init__(self) -> None:
        self._bits = np.random.SFC64(0)
        self._generator = np.random.Generator(self._bits)
        self._next: tuple[Address, int] | None = None  # the draw that would come now

    def fill(self, out: Tensor, address: Address, first: int = 0) -> Tensor:
        """Write the draws of a block from `first` on into `out` (draws, ...): contiguous float32 on the CPU."""
        if self._next != (address, first):
            self._begin(address, skip=first * out[0].numel())
        self._generator.standard_normal(dtype=np.float32, out=out.numpy())
        self._next = address, first + len(out)
        return out

    def _begin(self, address: Address, skip: int) -> None:
        self._bits.state = {
            "bit_generator": "SFC64",
            "state": {"state": address.state()},
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._generator.standard_normal(size=skip, dtype=np.float32)


def check_word(name: str, value: int) -> int:
    """A seed or input id, checked to fit the address."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < _WORD:
        raise RequestError(f"{name} must be a whole number from 0 to 2**64 - 1; got {value!r}")
    return int(value)
