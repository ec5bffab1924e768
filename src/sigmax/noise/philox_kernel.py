"""`GaussianSampler.numbers` as one pass over a batch on a GPU: noise is computed, scaled and added where it is needed.

Imported on machines with CUDA alone, because Triton comes with torch only there.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from sigmax.noise.sampler import Rows

QUADS = 256  # counters a program; each gives four numbers


@triton.jit
def _rounds(a, b, c, d, k0, k1):  # noqa: PLR0917
    for _ in tl.static_range(10):
        high0 = tl.umulhi(a, 0xD2511F53)
        low0 = a * 0xD2511F53
        high1 = tl.umulhi(c, 0xCD9E8D57)
        low1 = c * 0xCD9E8D57
        a = high1 ^ b ^ k0
        b = low1
        c = high0 ^ d ^ k1
        d = low0
        k0 += 0x9E3779B9
        k1 += 0xBB67AE85
    return a, b, c, d


@triton.jit
def _length(high, low):
    uniform = (high.to(tl.float32) + (low.to(tl.float32) + 0.5) * 2.3283064365386963e-10) * 2.3283064365386963e-10
    # The library's logarithm, which is exact to the last bits, and never a root of less than 0 should it not be.
    return tl.sqrt(tl.maximum(-2.0 * libdevice.log(uniform), 0.0))


@triton.jit
def _fill(x, out, streams, items, samples, positions, sigmas, numbers, GRID: tl.constexpr, QUADS: tl.constexpr):  # noqa: PLR0917, N803
    row = tl.program_id(0)
    quad = tl.program_id(1) * QUADS + tl.arange(0, QUADS)
    item = tl.load(items + row)
    k0 = tl.load(streams + item * 4).to(tl.uint32)
    k1 = tl.load(streams + item * 4 + 1).to(tl.uint32)
    zero = quad.to(tl.uint32) * 0
    s0 = zero + tl.load(streams + item * 4 + 2).to(tl.uint32)
    s1 = zero + tl.load(streams + item * 4 + 3).to(tl.uint32)
    sample = zero + tl.load(samples + row).to(tl.uint32)
    high0, angle0, high1, angle1 = _rounds(quad.to(tl.uint32), sample, s0, s1, k0, k1)
    low0, low1, _, _ = _rounds(quad.to(tl.uint32) | 0x80000000, sample, s0, s1, k0, k1)
    length0 = _length(high0, low0)
    length1 = _length(high1, low1)
    turn0 = angle0.to(tl.float32) * 4.656612873077393e-10  # in units of pi
    turn1 = angle1.to(tl.float32) * 4.656612873077393e-10
    sigma = tl.load(sigmas + item)
    here = x + tl.load(positions + item).to(tl.int64) * numbers
    there = out + row.to(tl.int64) * numbers
    for i in tl.static_range(4):
        if i == 0:
            normal = length0 * libdevice.cospi(turn0)
        elif i == 1:
            normal = length0 * libdevice.sinpi(turn0)
        elif i == 2:
            normal = length1 * libdevice.cospi(turn1)
        else:
            normal = length1 * libdevice.sinpi(turn1)
        element = quad * 4 + i
        inside = element < numbers
        pixel = tl.load(here + element, mask=inside)
        if GRID == 0:
            noisy = normal * sigma + pixel
        else:  # see `sampler._add_on_grid`; nothing here can be fused, since every product is rounded to a whole number
            steps = libdevice.rint(normal * sigma * GRID) + libdevice.rint(pixel * GRID)
            noisy = libdevice.div_rn(steps, GRID * 1.0)
        tl.store(there + element, noisy, mask=inside)


def fill(rows: Rows) -> None:
    """Write x + sigma * noise into every row, on the grid if there is one."""
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
        GRID=rows.grid or 0,
        QUADS=QUADS,
    )
