"""Addressed Gaussian noise: every draw has an address and always the same value.

# seed, input id, stage, block: the address; a block is 128 draws of the input's shape

A hash turns the address into the whole state of a Mersenne twister, and torch draws the block from that. Two
addresses never share a state, short of a collision of SHAKE-128; torch's own seeds on a CPU have 32 bits only, and
blocks would meet. The noise is made on the CPU whichever device votes, so it does not depend on the device either.
"""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sigmax.errors import RequestError, RunError

BLOCK = 128
GENERATOR = "shake128-mt19937/128"  # named in a run's plan; change it whenever an address would give other noise
_WORD = 2**64
_WORDS = 624  # 32-bit words of a Mersenne twister's state
_HEAD = 24  # bytes of torch's state before the words: seed, draws left, seeded, next word


def block(*, seed: int, input_id: int, stage: str, index: int, shape: Sequence[int]) -> Tensor:
    """Block `index` of a stage: 128 independent standard normal draws of `shape`, float32."""
    return Source().fill(torch.empty((BLOCK, *shape)), seed, input_id, stage, index)


class Source:
    """Draws blocks one after the other; every thread needs its own."""

    def __init__(self) -> None:
        self._generator = torch.Generator()
        self._state = fresh_state(self._generator)
        self._words = self._state.numpy()[_HEAD : _HEAD + 8 * _WORDS].view(np.uint64)

    def fill(self, out: Tensor, seed: int, input_id: int, stage: str, index: int) -> Tensor:
        """Write a block into `out` (128, ...)."""
        address = struct.pack("<QQQ", seed, input_id, index) + stage.encode()
        self._words[:] = np.frombuffer(hashlib.shake_128(address).digest(4 * _WORDS), dtype="<u4")
        self._generator.set_state(self._state)
        return torch.randn(out.shape, generator=self._generator, out=out)


def fresh_state(generator: torch.Generator) -> Tensor:
    """The state of a generator about to draw its first number, seen to be laid out as this file expects."""
    state = generator.manual_seed(7).get_state()
    content = state.numpy()
    words = content[_HEAD : _HEAD + 8 * _WORDS].view(np.uint64)
    left = content[8:12].view(np.int32)[0]
    second = (1812433253 * (7 ^ (7 >> 30)) + 1) % 2**32  # the second word that every Mersenne twister makes of 7
    if (int(words[0]), int(words[1]), int(left)) != (7, second, 1):
        raise RunError("this version of torch keeps its generator's state in another way; use another version")
    return state


def check_word(name: str, value: int) -> int:
    """A seed or input id, checked to fit the address."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < _WORD:
        raise RequestError(f"{name} must be a whole number from 0 to 2**64 - 1; got {value!r}")
    return int(value)
