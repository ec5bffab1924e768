"""Certified accuracy in l-infinity, as far as radii in another norm imply it. Labelled so wherever it is shown."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from sigmax.radius.implied import stretch
from sigmax.radius.normal import EPS
from sigmax.report.metrics.accuracy import Floats, certified_interval, measure
from sigmax.report.runs import Source, named

STEP = 1 / 255
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of 1/255, that papers ask about


def implied_accuracy(
    runs: Source | Iterable[Source], dim: int, radii: Sequence[float] | Floats | None = None
) -> pd.DataFrame:
    """Certified accuracy in % at l-infinity radii that the runs' radii imply, a row a run, a column a radius.

    dim: how many numbers an input has. At r it is the certified accuracy at r * sqrt(dim) of an l2 run, or at r * dim
    of an l1 run (`radius.implied_linf`). Without `radii`: 1/4, 1/2, 1 ... 8 steps of 1/255. The column `implied by`
    names the norm that is certified. NaN beyond what a run was asked about.
    """
    by_name = named(runs)
    asked = np.asarray([steps * STEP for steps in STEPS] if radii is None else radii, dtype=np.float64)
    rows = []
    for name, run in by_name.items():
        needed = asked * stretch(run.plan.norm, dim) * (1 + 4 * EPS)
        found = 100 * certified_interval(run, needed)[measure(run)]
        rows.append({"name": name, "implied by": run.plan.norm, **dict(zip(asked.tolist(), found, strict=True))})
    return pd.DataFrame(rows)
