"""Addressed Gaussian noise made where the network votes.

# key, stream: 64 + 64 bits, the hash of (seed, input id, stage); draw: which draw of the stage; element: its number

Philox-4x32-10 (Salmon et al. 2011) is a function, not a stream: the numbers of a draw are those of the counter
(element / 4, draw, stream) under the key, so any draw of any input can be made anywhere in a batch, alone. Two
words make a uniform of 64 bits, so the tails reach 9.4 sigma; Box and Muller make two normals of it and an angle.
The integers are the same on every device; the logarithm and the sines are each device's own, which may move a
number's last bits. So a run names the generator together with the kind of device it ran on.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

M0, M1 = 0xD2511F53, 0xCD9E8D57  # the multipliers and key increments of the paper
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
LOW = 0x80000000  # marks the counters whose words are the low halves of the uniforms
SCALE = 2.0**-32
GENERATOR = "shake128-philox4x32"  # named in a run's plan, with the kind of device


@lru_cache(maxsize=1 << 16)  # a stage looked at again asks again
def stream_of(*, seed: int, input_id: int, stage: str) -> tuple[int, int, int, int]:
    """Key and stream of a stage of an input: four words of 32 bits."""
    told = struct.pack("<QQ", seed, input_id) + stage.encode()
    key0, key1, stream0, stream1 = struct.unpack("<4I", hashlib.shake_128(b"philox" + told).digest(16))
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
    """High and low word of a product of two words; in halves, since 64 signed bits do not hold it."""
    low = (x & 0xFFFF) * m
    high = (x >> 16) * m + (low >> 16)
    return (high >> 16) & WORD, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def normals(words: Tensor, draws: Tensor, numbers: int) -> Tensor:
    """Draw `draws[i]` of the stream `words[i]`, (rows, numbers): standard normal float32. The definition, in torch.

    words: (rows, 4) key and stream; draws: (rows,); both int64, on any device.
    """
    quads = torch.arange(-(-numbers // 4), device=words.device).expand(len(words), -1)
    key = words[:, 0:1], words[:, 1:2]
    tail = [part[:, None].expand_as(quads) for part in (draws, words[:, 2], words[:, 3])]
    high0, angle0, high1, angle1 = integers([quads, *tail], key)
    low0, low1, *_ = integers([quads | LOW, *tail], key)
    pairs = [*_pair(high0, low0, angle0), *_pair(high1, low1, angle1)]
    return torch.stack(pairs, dim=2).flatten(1)[:, :numbers]


def _pair(high: Tensor, low: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Two normals by Box and Muller, of a uniform of 64 bits (never 0) and an angle of 32."""
    uniform = (high.float() + (low.float() + 0.5) * SCALE) * SCALE
    length = (-2 * uniform.log()).sqrt()
    turn = angle.float() * (2 * SCALE) * math.pi
    return length * turn.cos(), length * turn.sin()
