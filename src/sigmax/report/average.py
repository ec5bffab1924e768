"""The average certified radius with what must be said beside it.

# R_i radius of input i for its true class, 0 without one; ACR the mean of R_i; dR/dp_A what a little more p_A adds

Source: Sun et al. (2025), "Average certified radius is a poor metric for randomized smoothing", Sec. 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sigmax.records.rounding import down, share_up
from sigmax.report.accuracy import Floats, certified_radii, mean_radius
from sigmax.report.runs import Source, load

WARNING = (
    "ACR is a poor metric: it rewards the easiest inputs out of all proportion, counts nothing below p_A = 0.5, "
    "and can rank two classifiers differently for another n; compare distributions of p_A, or accuracies at radii"
)


@dataclass(frozen=True)
class AverageRadius:
    """The mean certified radius, the share of it that the easiest tenth of the inputs makes, and the warning.

    `easiest_tenth` is 0.1 where all inputs have the same radius, 1 where no other input adds anything.
    """

    value: float
    easiest_tenth: float
    inputs: int
    warning: str = WARNING

    def __str__(self) -> str:
        tenth = share_up(100 * self.easiest_tenth)
        where = f"{tenth}% of it from the easiest tenth of {self.inputs:,} inputs"
        return f"ACR {down(self.value, 4)}, {where}. {self.warning}."


def average_radius(run: Source) -> AverageRadius:
    """ACR, never alone: the inputs with the largest radii are its easiest, and a tenth of them its measure."""
    run = load(run)
    radii, inputs = certified_radii(run), len(run.records)
    return AverageRadius(mean_radius(radii, inputs), easiest_share(radii, inputs), inputs)


def easiest_share(certified: Floats, inputs: int, part: float = 0.1) -> float:
    """What part of the sum of the rising radii the easiest `part` of all inputs makes; 0 where there is no sum.

    Where a tenth is no whole number of inputs, the last one counts for a part of itself.
    """
    if not np.any(certified):
        return 0.0
    # By a power of two, which is exact: the smallest floats have no tenth.
    parts = np.ldexp(certified[::-1], -int(np.frexp(certified[-1])[1]))
    weights = np.clip(part * inputs - np.arange(len(certified)), 0.0, 1.0)
    return float(np.sum(weights * parts) / np.sum(parts))


def sensitivity(p: ArrayLike, *, sigma: float = 1.0) -> Floats:
    """dR/dp_A of R = sigma * Phi^-1(p_A): how much radius a little more p_A is worth; 0 below one half.

    It grows without limit as p_A nears 1. Source: Sun et al. (2025), Sec. 4.2; 1 / phi(z) with z = Phi^-1(p_A).
    """
    share = np.asarray(p, dtype=np.float64)
    slope = sigma * np.sqrt(2 * np.pi) * np.exp(ndtri(share) ** 2 / 2)
    return np.where(share > 0.5, slope, 0.0)
