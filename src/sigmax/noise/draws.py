"""Addressed Gaussian noise: every draw has an address and always the same value.

# seed, input id, stage, block: the address; a block is 128 draws of the input's shape

The generator is Philox, a block cipher run over a counter: the address *is* its key and counter, so two
addresses never share a number, whatever was drawn before, in which batch, order or process. The noise is made on
the CPU whichever device votes, so it does not depend on the device either.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sigmax.errors import RequestError

BLOCK = 128
GENERATOR = "philox/128"  # named in a run's plan; change it whenever an address would give other noise
_WORD = 2**64

Noise = npt.NDArray[np.float32]


def block(*, seed: int, input_id: int, stage: str, index: int, shape: Sequence[int]) -> Noise:
    """Block `index` of a stage: 128 independent standard normal draws of `shape`, float32."""
    return fill(np.empty((BLOCK, *shape), dtype=np.float32), seed, input_id, stage, index)


def fill(out: Noise, seed: int, input_id: int, stage: str, index: int) -> Noise:
    """Write a block into `out` (128, ...), which saves allocating it."""
    key = np.array([seed, stage_word(stage)], dtype=np.uint64)
    # The generator counts up in the first word: 2**64 steps of four numbers lie between two blocks.
    counter = np.array([0, index, input_id, 0], dtype=np.uint64)
    np.random.Generator(np.random.Philox(key=key, counter=counter)).standard_normal(dtype=np.float32, out=out)
    return out


def stage_word(stage: str) -> int:
    """A stage's name as 64 bits of the generator's key."""
    return int.from_bytes(hashlib.blake2b(stage.encode(), digest_size=8).digest(), "little")


def check_word(name: str, value: int) -> int:
    """A seed or input id, checked to fit the address."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < _WORD:
        raise RequestError(f"{name} must be a whole number from 0 to 2**64 - 1; got {value!r}")
    return int(value)
