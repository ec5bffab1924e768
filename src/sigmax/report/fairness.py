"""Certified accuracy class by class: whether a good average hides classes that are given up.

# A_c(r) share of the inputs of class c certified for it with R >= r
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_counts, checked_radii, interval
from sigmax.report.runs import Source, load

if TYPE_CHECKING:
    import pandas as pd


def class_accuracy(
    run: Source, radii: float | Sequence[float] | Floats = 0.0, *, strict: bool = False, level: float = 0.95
) -> "pd.DataFrame":
    """A_c(r) of every class the run has inputs of: `label`, `radius`, `inputs`, `accuracy`, `low`, `high`.

    The interval is Clopper-Pearson's at `level`, of each class and radius by itself; see `certified_accuracy` for
    `strict`.
    """
    import pandas as pd

    run, asked = load(run), checked_radii(radii)
    parts = []
    for label, own in by_class(run).items():
        k, n = certified_counts(own, asked, strict=strict), len(own.records)
        low, high = interval(k, n, level=level)
        columns = {"label": label, "radius": asked, "inputs": n, "accuracy": k / n, "low": low, "high": high}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def class_spread(
    run: Source, radii: float | Sequence[float] | Floats = 0.0, *, strict: bool = False
) -> "pd.DataFrame":
    """How unlike the classes are at each radius: the worst and the best of them, and what lies between.

    Columns: `radius`, `worst` and `best` (accuracies), `worst_label` and `best_label`, `spread` (best - worst) and
    `deviation` (the standard deviation over classes). With few inputs a class the extremes are partly luck:
    `class_accuracy` has the intervals.
    """
    import pandas as pd

    asked = checked_radii(radii)
    frame = class_accuracy(run, asked, strict=strict)
    values = frame["accuracy"].to_numpy(dtype=np.float64).reshape(-1, len(asked))  # one row a class
    labels = frame["label"].to_numpy()[:: len(asked)]
    worst, best, columns = values.argmin(axis=0), values.argmax(axis=0), np.arange(len(asked))
    return pd.DataFrame(
        {
            "radius": asked,
            "worst": values[worst, columns],
            "worst_label": labels[worst],
            "best": values[best, columns],
            "best_label": labels[best],
            "spread": values[best, columns] - values[worst, columns],
            "deviation": values.std(axis=0),
        }
    )


def by_class(run: Run) -> dict[int, Run]:
    """The run cut to the inputs of each true class, by rising class."""
    labels = sorted({record.label for record in run.records})
    return {
        label: replace(run, records=tuple(record for record in run.records if record.label == label))
        for label in labels
    }
