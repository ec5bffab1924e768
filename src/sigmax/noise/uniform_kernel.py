"""`UniformSampler.numbers` as one pass over a batch on a GPU.

Imported on machines with CUDA alone, because Triton comes with torch only there.
"""

import triton
import triton.language as tl

from sigmax.noise.philox_kernel import QUADS, _rounds
from sigmax.noise.sampler import Rows


@triton.jit
def _fill(x, out, streams, items, samples, positions, scales, numbers, QUADS: tl.constexpr):  # noqa: PLR0917, N803
    row = tl.program_id(0)
    quad = tl.program_id(1) * QUADS + tl.arange(0, QUADS)
    item = tl.load(items + row)
    k0 = tl.load(streams + item * 4).to(tl.uint32)
    k1 = tl.load(streams + item * 4 + 1).to(tl.uint32)
    zero = quad.to(tl.uint32) * 0
    s0 = zero + tl.load(streams + item * 4 + 2).to(tl.uint32)
    s1 = zero + tl.load(streams + item * 4 + 3).to(tl.uint32)
    sample = zero + tl.load(samples + row).to(tl.uint32)
    a, b, c, d = _rounds(quad.to(tl.uint32), sample, s0, s1, k0, k1)
    scale = tl.load(scales + item)
    here = x + tl.load(positions + item).to(tl.int64) * numbers
    there = out + row.to(tl.int64) * numbers
    for i in tl.static_range(4):
        if i == 0:
            word = a
        elif i == 1:
            word = b
        elif i == 2:
            word = c
        else:
            word = d
        odd = 2 * (word >> 9).to(tl.int32) + 1 - 8388608  # whole, and a float exactly
        element = quad * 4 + i
        inside = element < numbers
        pixel = tl.load(here + element, mask=inside)
        tl.store(there + element, odd.to(tl.float32) * 1.1920928955078125e-07 * scale + pixel, mask=inside)


def fill(rows: Rows) -> None:
    """Write x + scale * noise into every row."""
    count, numbers = rows.out.shape
    _fill[(count, triton.cdiv(numbers, 4 * QUADS))](
        rows.x,
        rows.out,
        rows.streams,
        rows.items,
        rows.samples,
        rows.positions,
        rows.levels,
        numbers,
        QUADS=QUADS,
    )
