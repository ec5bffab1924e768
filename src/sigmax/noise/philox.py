"""Random words by address, computed where the network votes.

# key, stream: 64 + 64 bits, the hash of (seed, input id, stage); sample: its number in the stage; element: its number

Philox-4x32-10 (Salmon et al. 2011) is a function, not a stream: the words of a sample are those of the counter
(element / 4, sample, stream) under the key, so any sample of any input can be computed anywhere in a batch, alone.
The integers are the same on every device; what a sampler makes of them (logarithms, sines) is each device's own,
which may move a number's last bits. So a run names the generator together with the kind of device it ran on.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

M0, M1 = 0xD2511F53, 0xCD9E8D57  # the multipliers and key increments of the paper
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
LOW = 0x80000000  # marks the counters of the second group of words
SCALE = 2.0**-32
GENERATOR = "shake128-philox4x32 by weights and input"  # named in a run's plan, with the kind of device


@lru_cache(maxsize=1 << 16)  # a stage that is looked at again asks again
def stream_of(*, seed: int, input_id: int, stage: str) -> tuple[int, int, int, int]:
    """Key and stream of a stage of an input: four words of 32 bits."""
    key = struct.pack("<QQ", seed, input_id) + stage.encode()
    key0, key1, stream0, stream1 = struct.unpack("<4I", hashlib.shake_128(b"philox" + key).digest(16))
    return key0, key1, stream0, stream1


def integers(counter: Sequence[Tensor], key: Sequence[Tensor]) -> list[Tensor]:
    """Philox-4x32-10 on int64 tensors that hold 32-bit words: the definition, for any device."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _product(M0, a)
        high1, low1 = _product(M1, c)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = (k0 + W0) & WORD, (k1 + W1) & WORD
    return [a, b, c, d]


def _product(m: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of a product of two words; 16 bits at a time, since 64 signed bits do not hold it."""
    low = (x & 0xFFFF) * m
    high = (x >> 16) * m + (low >> 16)
    return (high >> 16) & WORD, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def words(streams: Tensor, samples: Tensor, numbers: int) -> tuple[list[Tensor], list[Tensor]]:
    """Eight words for every four numbers of a sample, in two groups of four, each (rows, ceil(numbers / 4))."""
    quads = torch.arange(-(-numbers // 4), device=streams.device).expand(len(streams), -1)
    key = streams[:, 0:1], streams[:, 1:2]
    rest = [part[:, None].expand_as(quads) for part in (samples, streams[:, 2], streams[:, 3])]
    return integers([quads, *rest], key), integers([quads | LOW, *rest], key)
