"""Certified accuracy and the average certified radius of a run.

# r radius asked about; R_i radius recorded for input i; an input counts only if its true class was certified
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigmax import bounds
from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.questions import furthest_asked, targets
from sigmax.report.runs import Source, load

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
GRID_STEP = 0.25  # the papers' grid of radii
GRID_POINTS = 16  # more make a table nobody can read; the step is then doubled


def certified_accuracy(
    run: Source, radii: float | Sequence[float] | Floats, *, strict: bool = False
) -> "pd.Series[float]":
    """The share of inputs whose true class was certified with R_i >= r, for each r; `strict` asks for R_i > r.

    Abstentions never count, not even at r = 0. There the two differ by inputs certified with a radius of exactly 0,
    elsewhere by radii that hit r, which radii printed with three digits often do. Cohen et al. and the papers after
    them count R_i >= r; the authors of Dual randomized smoothing R_i > r.
    The share is of the inputs recorded, so an unfinished run speaks of those it has. A run that was asked only
    which of some radii hold (targets) answers at those; in between its share is what happens to be proved.
    """
    import pandas as pd

    run, asked = load(run), checked_radii(radii)
    share = certified_counts(run, asked, strict=strict) / len(run.records)
    return pd.Series(share, index=pd.Index(asked, name="radius"), name="certified accuracy")


def certified_interval(
    run: Source, radii: float | Sequence[float] | Floats, *, strict: bool = False, level: float = 0.95
) -> "pd.DataFrame":
    """`certified_accuracy` with its uncertainty: columns `radius`, `accuracy`, `low`, `high`.

    The interval is Clopper-Pearson's at `level`, at each radius by itself, for inputs drawn at random from what the
    run stands for; it says nothing of the radii, whose chance of error is the run's alpha.
    """
    import pandas as pd

    run, asked = load(run), checked_radii(radii)
    k, n = certified_counts(run, asked, strict=strict), len(run.records)
    low, high = interval(k, n, level=level)
    return pd.DataFrame({"radius": asked, "accuracy": k / n, "low": low, "high": high})


def acr(run: Source) -> float:
    """The average certified radius: the mean of R_i, with 0 where the true class was not certified.

    A poor metric: see `average_radius`, which says how much of it a tenth of the inputs make.
    """
    run = load(run)
    return mean_radius(certified_radii(run), len(run.records))


def mean_radius(certified: Floats, inputs: int) -> float:
    """The radii's sum over all inputs, those without one included."""
    return math.fsum(certified) / inputs


def certified_curve(run: Source, *, level: float = 0.95) -> "pd.DataFrame":
    """Certified accuracy as the step function it is: one row for each radius at which it falls.

    `accuracy` holds for every r above the previous row's radius up to this row's (R_i >= r), and is 0 beyond the
    last. `low` and `high` are its Clopper-Pearson interval at `level`, at each radius by itself, for inputs drawn
    at random from what the run stands for.
    """
    import pandas as pd

    run = load(run)
    radii = np.unique(np.append(0.0, certified_radii(run)))
    k, n = certified_counts(run, radii), len(run.records)
    low, high = interval(k, n, level=level)
    return pd.DataFrame({"radius": radii, "accuracy": k / n, "low": low, "high": high})


def interval(k: NDArray[np.int64], n: int, *, level: float) -> tuple[Floats, Floats]:
    """Two-sided Clopper-Pearson interval of k out of n: each side may be wrong with half of 1 - level."""
    if not 0 < level < 1:
        raise RequestError(f"level must lie strictly between 0 and 1 (0.95 is usual); got {level!r}")
    tail = (1 - level) / 2
    return np.asarray(bounds.lower(k, n, tail)), np.asarray(bounds.upper(k, n, tail))


def certified_radii(run: Run) -> Floats:
    """The radii recorded for the true class, rising."""
    return np.sort([record.certificate.radius for record in run.records if record.correct])


def certified_counts(run: Run, radii: Floats, *, strict: bool = False) -> NDArray[np.int64]:
    """How many inputs are certified for their true class at each radius."""
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


def usual_radii(runs: Sequence[Run]) -> Floats:
    """0, 0.25, 0.5 ... as far as one of the runs still certifies; in wider steps where that is far.

    Radii that a run was asked about (its targets) are among them, unless they are very many.
    """
    furthest = max(min(float(certified_radii(run).max(initial=0.0)), furthest_asked(run)) for run in runs)
    step = GRID_STEP
    while furthest // step >= GRID_POINTS:
        step *= 2
    asked = sorted({radius for run in runs for radius in targets(run)})
    grid = np.arange(int(furthest // step) + 1, dtype=np.float64) * step
    return np.union1d(grid, asked) if len(asked) <= GRID_POINTS else grid
