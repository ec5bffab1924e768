"""Certified accuracy and the average certified radius of a run, with what must be said beside it.

# r radius asked about; R_i radius recorded for input i, which counts only if its true class was certified, else 0
# Where a run has no labels R_i counts whichever class was certified, and shares are no accuracies
# ACR the mean of R_i; dR/dp_A what a little more p_A adds

Source on ACR: Sun et al. (2025), "Average certified radius is a poor metric for randomized smoothing", Sec. 4.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sigmax import bounds
from sigmax.errors import RequestError
from sigmax.radius import known_share
from sigmax.records.rounding import down, share_up
from sigmax.records.run import Run
from sigmax.report.metrics.adaptive import Planned, furthest_asked, targets, up_to, where_asked
from sigmax.report.runs import Source, labelled, load
from sigmax.rules.notebook import paragraph

Floats = NDArray[np.float64]
LEVEL = 0.95  # of the intervals over inputs
FINER = (4, 8, 20, 40, 100)  # radii per unit: the papers' steps of 0.25, and finer ones for little noise
FEWEST_STEPS, GRID_POINTS = 3, 10  # of a table that says something, and that 80 letters hold
NEAR_STEPS = 4  # of a wide grid: up to here in single steps, for runs of little noise; then in double ones
WARNING = (
    "ACR is a poor metric: it rewards the easiest inputs out of all proportion, counts nothing below p_A = 0.5, "
    "and can rank two classifiers differently for another n; compare distributions of p_A, or accuracies at radii"
)


def certified_accuracy(
    run: Source, radii: float | Sequence[float] | Floats, *, strict: bool = False
) -> "pd.Series[float]":
    """The share of inputs whose true class was certified with R_i >= r, for each r; `strict` asks for R_i > r.

    Abstentions never count, not even at r = 0. Cohen et al. and the papers after them count R_i >= r; the authors of
    Dual randomized smoothing R_i > r, which differs where radii hit r, as radii printed with three digits often do.
    A run that was asked only which of some radii hold (targets) answers at those; in between its share is what happens
    to be proved, and beyond the largest of them it is NaN.
    """
    run, asked = labelled(load(run), "accuracy"), checked_radii(radii)
    share = where_asked(run, asked, certified_counts(run, asked, strict=strict) / len(run.records))
    return pd.Series(share, index=pd.Index(asked, name="radius"), name="certified accuracy")


def certified_share(run: Source, radii: float | Sequence[float] | Floats) -> "pd.Series[float]":
    """The share of inputs certified for any class with R_i >= r, for each r.

    It needs no labels, and says nothing of whether the class is right. It is NaN where `certified_accuracy` is.
    """
    run, asked = load(run), checked_radii(radii)
    certified = np.sort([r.certificate.radius for r in run.records if r.certificate.predicted is not None])
    share = where_asked(run, asked, reached(certified, asked) / len(run.records))
    return pd.Series(share, index=pd.Index(asked, name="radius"), name="certified share")


def certified_interval(run: Source, radii: float | Sequence[float] | Floats, *, level: float = LEVEL) -> pd.DataFrame:
    """`certified_accuracy` with its uncertainty: columns `radius`, `accuracy`, `low`, `high`.

    Of a run without labels it is `certified_share`, and the column is called `share`.
    The interval is Clopper-Pearson's at `level`, at each radius by itself, for inputs drawn at random; it says nothing
    of the radii, whose chance of error is the run's alpha.
    """
    run, asked = load(run), checked_radii(radii)
    k, n = certified_counts(run, asked), len(run.records)
    low, high = interval(k, n, level=level)
    columns = {measure(run): k / n, "low": low, "high": high}
    return pd.DataFrame({"radius": asked, **{name: where_asked(run, asked, of) for name, of in columns.items()}})


def measure(run: Run) -> str:
    """What the share of certified inputs is: `accuracy`, or `share` where the true classes are not known."""
    return "accuracy" if run.labelled else "share"


def acr(run: Source) -> float:
    """The average certified radius: the mean of R_i, with 0 where the true class was not certified. Needs labels.

    A poor metric: see `average_radius`, which says how much of it a tenth of the inputs make.
    """
    return average_radius(run).value


def certified_curve(run: Source, *, level: float = LEVEL) -> pd.DataFrame:
    """Certified accuracy as the step function it is: one row for each radius at which it falls.

    `accuracy` holds for every r above the previous row's radius up to this row's, and is 0 beyond the last; of a run
    that was asked about some radii only (targets) nothing is known there. Other columns: see `certified_interval`.
    """
    run = load(run)
    radii = up_to(np.unique(np.append(0.0, certified_radii(run))), furthest_asked(run))
    return certified_interval(run, radii, level=level)


def interval(k: NDArray[np.int64], n: int, *, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Two-sided Clopper-Pearson interval of k out of n: each side may be wrong with half of 1 - level."""
    if not 0 < level < 1:
        raise RequestError(f"level must lie strictly between 0 and 1 (0.95 is usual); got {level!r}")
    tail = (1 - level) / 2
    return np.asarray(bounds.lower(k, n, tail)), np.asarray(bounds.upper(k, n, tail))


def certified_radii(run: Run) -> Floats:
    """The radii recorded for the true class, or for any where it is not known, rising."""
    return np.sort([record.certificate.radius for record in run.records if record.counts])


def certified_counts(run: Run, radii: Floats, *, strict: bool = False) -> NDArray[np.int64]:
    """How many inputs are certified at each radius: for their true class, or for any where it is not known."""
    return reached(certified_radii(run), radii, strict=strict)


def reached(certified: Floats, radii: Floats, *, strict: bool = False) -> NDArray[np.int64]:
    """How many of the rising list `certified` reach each radius; `strict`: exceed it."""
    return len(certified) - np.searchsorted(certified, radii, side="right" if strict else "left")


def checked_radii(radii: float | Sequence[float] | Floats) -> Floats:
    """Radii as an array of at least one number, none of them negative."""
    asked = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    if asked.ndim != 1 or not asked.size or not np.all(np.isfinite(asked) & (asked >= 0)):
        raise RequestError(f"radii must be a list of numbers of at least 0; got {radii!r}")
    return asked


def grid(runs: Collection[Run], radii: Sequence[float] | Floats | None) -> Floats:
    """The radii asked for; if none: 0, 0.25, 0.5 ... as far as one of the runs still certifies, ten at most.

    Where that is far, steps are wider, the first ones less so: a run of little noise has radii there too. Where it is
    near, they are finer. Radii that a run was asked about (its targets) are among them, unless they are very many.
    """
    return grid_of([(run, certified_radii(run)) for run in runs], radii)


def grid_of(runs: Collection[tuple[Planned, Floats]], radii: Sequence[float] | Floats | None) -> Floats:
    """The same of runs with their rising lists of radii."""
    if radii is not None:
        return checked_radii(radii)
    furthest = max(min(float(certified.max(initial=0.0)), furthest_asked(run)) for run, certified in runs)
    asked = sorted({radius for run, _ in runs for radius in targets(run)})
    fits = (p for p in FINER if furthest * p >= FEWEST_STEPS or asked)
    usual = _usual(furthest, float(next(fits, FINER[0])))
    return np.union1d(usual, asked) if len(asked) <= GRID_POINTS else usual


def _usual(furthest: float, per_unit: float) -> Floats:
    """Even steps; if they are too many, double ones after the first few; if still too many, wider ones."""
    even = np.arange(int(furthest * per_unit) + 1, dtype=np.float64) / per_unit
    if len(even) <= GRID_POINTS:
        return even
    widening = np.append(even[: NEAR_STEPS + 1], even[NEAR_STEPS + 2 :: 2])
    return widening if len(widening) <= GRID_POINTS else _usual(furthest, per_unit / 2)


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

    def _repr_html_(self) -> str:
        return paragraph(str(self))


def mean_of(certified: Floats, inputs: int) -> float:
    """The mean of the radii that count, with 0 for inputs without one; no accuracy is in it without labels."""
    return math.fsum(certified) / inputs


def average_radius(run: Source) -> AverageRadius:
    """ACR, never alone: the inputs with the largest radii are its easiest, and a tenth of them its measure."""
    run = labelled(load(run), "ACR")
    radii, inputs = certified_radii(run), len(run.records)
    return AverageRadius(mean_of(radii, inputs), easiest_share(radii, inputs), inputs)


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
    return np.asarray(known_share.slope(sigma, p))
