"""Splitting noise, derandomised: every split of a quantised image is looked at, and the shares of votes are exact."""

# q steps from 0 to 1: an image is k / q, k whole in each number; m offsets; lambda = m / (2q) the scale
# v_i fixed whole numbers; s_i = (j + v_i) mod m the offset of number i at the j-th look, j = 0 .. m - 1
# c_c votes for class c over all m looks; p_c = c_c / m

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.radius.noise import FINEST_GRID
from sigmax.radius.normal import EPS
from sigmax.radius.uniform import ShareScore

MOST_OFFSETS = 2**20  # each is a forward pass
_WORD = 8  # bytes of a shift, before it is taken mod m


@dataclass(frozen=True)
class Split(ShareScore):
    """Splitting noise of scale lambda = offsets / (2 * grid), at all of its offsets: p_c is exact, not estimated.

    The line of each number of the image is cut at the points (s_i + 1/2 + m z) / q, z whole, into intervals of length
    2 * lambda; the base classifier sees only the middles of the intervals that the numbers lie in (cut at 0 and 1).

    Guarantee: |p_c(x) - p_c(x')| <= |x - x'|_1 / (2 * lambda) for all images x, x' that are multiples of 1 / q. So
    z_c = 2 * lambda * p_c = c_c / q is 1-Lipschitz in l1 among them, and nothing of it is random.
    Needs: v fixed before the images; a base classifier that answers alike when asked again.
    Proof: number i is seen differently at x and x' only where a cut lies between k_i and k'_i. As j runs over its m
    values so does s_i, and |k_i - k'_i| of them (at most) put a cut there. So at most sum_i |k_i - k'_i| = q |x - x'|_1
    of the m looks differ anywhere in the image, and no class gains or loses more votes than that. The offsets of
    different numbers may depend on each other in any way: only this sum is used, and so m looks are enough.
    Source: Levine & Feizi (2021), "Improved, deterministic smoothing for l1 certified robustness", Theorems 2 and 3.
    """

    name: ClassVar[str] = "splitting"
    offsets: int
    grid: int = 255
    seed: int = 0  # of v

    def __post_init__(self) -> None:
        for name, most in (("offsets", MOST_OFFSETS), ("grid", FINEST_GRID)):
            value = getattr(self, name)
            if not is_whole(value) or not 1 <= value <= most:
                raise RequestError(f"{name} must be a whole number from 1 to {most:,}; got {value!r}")
            object.__setattr__(self, name, int(value))
        if not is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise RequestError(f"seed must be a whole number from 0 to below 2**63; got {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))

    @classmethod
    def of_scale(cls, scale: float, grid: int = 255, seed: int = 0) -> "Split":
        """The splitting noise whose scale is nearest to the one wanted: scales are multiples of 1 / (2 * grid)."""
        if not is_number(scale) or not 0 < scale <= MOST_OFFSETS:
            raise RequestError(
                f"scale must be a positive number (half the length of the intervals, pixels in [0, 1]); got {scale!r}"
            )
        whole = is_whole(grid) and grid >= 1
        return cls(max(1, round(2 * scale * grid)) if whole else 1, grid, seed)

    @property
    def scale(self) -> float:
        """Lambda."""
        return self.offsets / (2 * self.grid)

    @property
    def sigma(self) -> float:
        """The level of the noise: its scale."""
        return self.scale

    @property
    def usable_scale(self) -> float:
        """Lambda itself: nothing is scaled by a 32-bit float."""
        return self.scale

    def shifts(self, numbers: int) -> NDArray[np.int64]:
        """The v of an image of so many numbers, in their order."""
        return _shifts(self.seed, self.offsets, numbers)


def splitting(votes: int, rival: int, grid: int) -> float:
    """Radius in l1 within which no quantised image changes the class: (votes - rival) / (2 * grid), rounded down, or 0.

    votes, rival: of the class and of the strongest other one, over all offsets (see `Split`).
    Needs: the perturbed image is a multiple of 1 / grid too.
    Proof: at a distance of t / grid the class keeps votes - t and a rival has rival + t at most; the class leads as
    long as 2t < votes - rival. The radius is below half of that by rounding, so at the radius itself it still leads,
    and no rule for ties is needed.
    """
    gap = votes - rival
    return gap / (2 * grid) * (1 - 4 * EPS) if gap > 0 else 0.0


@lru_cache(maxsize=32)
def _shifts(seed: int, offsets: int, numbers: int) -> NDArray[np.int64]:
    digest = hashlib.shake_128(b"splitting" + seed.to_bytes(8, "little")).digest(_WORD * numbers)
    found = (np.frombuffer(digest, dtype="<u8") % np.uint64(offsets)).astype(np.int64)
    found.setflags(write=False)
    return found
