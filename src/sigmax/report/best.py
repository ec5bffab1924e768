"""The best over sigma: which of several runs does best, radius by radius and input by input.

# R_s(x) radius of the run with noise s for the true class of x, 0 without one

The fair way to show a method whose sigma is a setting: at each radius the best run, and which it was.
Source: Sun et al. (2025), Sec. 7; Carlini et al. (2023) report so.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_counts, interval
from sigmax.report.comparison import grid
from sigmax.report.runs import SAME_SIGMA, Source, named
from sigmax.report.shared import on_shared_inputs, true_radii

if TYPE_CHECKING:
    import pandas as pd


def best_over_sigma(
    runs: Iterable[Source],
    radii: float | Sequence[float] | Floats | None = None,
    *,
    strict: bool = False,
    level: float = 0.95,
) -> "pd.DataFrame":
    """The envelope of the runs with its choices: `radius`, `run`, `accuracy`, `low`, `high`.

    On the inputs that all runs hold. `run` is the name of the best at that radius (the first of equals), empty
    where none certifies anything. The interval is Clopper-Pearson's of that one run at `level`: as the best of
    several was taken after looking, it is a little too favourable.
    """
    import pandas as pd

    shared = on_the_same_inputs(runs)
    asked = grid(shared.values(), np.atleast_1d(radii) if isinstance(radii, int | float) else radii)
    counts = np.array([certified_counts(run, asked, strict=strict) for run in shared.values()])
    best, inputs = counts.max(axis=0), len(next(iter(shared.values())).records)
    names = np.where(best > 0, np.array(list(shared))[counts.argmax(axis=0)], "")
    low, high = interval(best, inputs, level=level)
    return pd.DataFrame({"radius": asked, "run": names, "accuracy": best / inputs, "low": low, "high": high})


def radii_by_sigma(runs: Iterable[Source]) -> "pd.DataFrame":
    """R_s(x): one row an input that all runs hold (the index), one column a noise level, rising.

    Needs runs of one noise level each, no two the same.
    """
    import pandas as pd

    shared = on_the_same_inputs(runs)
    columns = {sigma_of(name, run): true_radii(run) for name, run in shared.items()}
    alike = any(math.isclose(one, other, rel_tol=SAME_SIGMA) for one, other in pairwise(sorted(columns)))
    if alike or len(columns) < len(shared):
        raise RequestError(f"expected runs of different sigma; {len(shared)} runs have {sorted(columns)}")
    index = pd.Index([record.index for record in next(iter(shared.values())).records], name="index")
    return pd.DataFrame({sigma: columns[sigma] for sigma in sorted(columns)}, index=index)


def best_sigma(runs: Iterable[Source]) -> "pd.Series[float]":
    """For each input that all runs hold, the noise level with the largest radius; NaN where none certifies it.

    The smallest of equals.
    """
    import pandas as pd

    frame = radii_by_sigma(runs)
    radii, sigmas = frame.to_numpy(), frame.columns.to_numpy(dtype=np.float64)
    best = np.where(radii.max(axis=1) > 0, sigmas[radii.argmax(axis=1)], np.nan)
    return pd.Series(best, index=frame.index, name="best sigma")


def on_the_same_inputs(runs: Iterable[Source]) -> Mapping[str, Run]:
    """The runs by name, cut to the inputs that all of them hold."""
    by_name = named(runs)
    return dict(zip(by_name, on_shared_inputs(list(by_name.values())), strict=True))


def sigma_of(name: str, run: Run) -> float:
    """The one noise level of a run."""
    used = sorted(set(run.frame()["sigma"].dropna()))
    if len(used) != 1 or not used[0]:
        raise RequestError(f"expected a run of one noise level, got {name} with {used or 'none'}; leave it out")
    return float(used[0])
