"""Addressed noise on a CPU: every sample has an address and always the same value.

# seed, input id, stage, block: the address; a block is 128 samples of the input's shape

A hash turns the address into the whole state of a generator (SFC64), from which the distribution's sampler fills the
block. Two addresses never share a state, short of a collision of SHAKE-128. A GPU computes its own noise, from the
same kind of address: see `philox`.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.noise.sampler import Sampler

BLOCK = 128
# Named in a run's plan; change it whenever an address would give other noise.
GENERATOR = "shake128-sfc64/128 by weights and input"
_UINT64 = 2**64
_COUNTER = struct.pack("<Q", 1)  # as SFC64 begins
_KEPT = 4096  # states of generators, 3 MB

Floats = npt.NDArray[np.float32]
State = Any  # of a generator, as numpy gives and takes it


class Address(NamedTuple):
    """Where a block of noise comes from."""

    seed: int
    input_id: int
    stage: str
    block: int

    def state(self) -> npt.NDArray[np.uint64]:
        """The generator's whole state: three hashed words, and the counter SFC64 begins with."""
        key = struct.pack("<QQQ", self.seed, self.input_id, self.block) + self.stage.encode()
        return np.frombuffer(hashlib.shake_128(key).digest(24) + _COUNTER, dtype="<u8")


def empty(shape: Sequence[int]) -> Tensor:
    """Room for noise: 32-bit floats on the CPU, whatever torch's defaults were set to."""
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")


class Left:
    """Where blocks were left: the generator's state before the sample of a block that comes next.

    Adaptive sampling asks for a block in several pieces, often with other inputs' between them. Without the state
    a piece would have to sample all before it again. Only the last few thousand are kept, so that any number of
    inputs takes little memory.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[Address, int], State] = {}

    def keep(self, address: Address, sample: int, state: State) -> None:
        """Remember the state before a sample."""
        if len(self._states) >= _KEPT:
            del self._states[next(iter(self._states))]
        self._states[address, sample] = state

    def take(self, address: Address, sample: int) -> State | None:
        """The state before a sample, if it is known; it is wanted once."""
        return self._states.pop((address, sample), None)


class BlockSource:
    """Fills samples from blocks, and goes on within one where it was left; every thread needs its own."""

    def __init__(self, sampler: Sampler, left: Left | None = None) -> None:
        self._sampler = sampler
        self._bits = np.random.SFC64(0)
        self._generator = np.random.Generator(self._bits)
        self._next: tuple[Address, int] | None = None  # the sample that would come now
        self._left = left or Left()

    def fill(self, out: Floats, address: Address, first: int = 0, *, more: bool = True) -> Floats:
        """Write the samples of a block from `first` on into `out` (samples, ...), which is contiguous.

        `more`: whether another source may be asked for those that follow, and so needs to know where this one was.
        """
        if self._next != (address, first):
            self._begin(address, first, out.size // len(out))
        self._sampler.fill(self._generator, out)
        stop = first + len(out)
        self._next = address, stop
        if more and stop < BLOCK:
            self._left.keep(address, stop, self._bits.state)
        return out

    def _begin(self, address: Address, first: int, numbers: int) -> None:
        """Go to a sample of a block; a sample has so many numbers."""
        state = self._left.take(address, first) if first else None
        self._bits.state = state or {
            "bit_generator": "SFC64",
            "state": {"state": address.state()},
            "has_uint32": 0,
            "uinteger": 0,
        }
        if first and state is None:
            self._sampler.fill(self._generator, np.empty(first * numbers, dtype=np.float32))


def check_uint64(name: str, value: int) -> int:
    """A seed or input id, checked to fit the address."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < _UINT64:
        raise RequestError(f"{name} must be a whole number from 0 to 2**64 - 1; got {value!r}")
    return int(value)
