"""What became of the inputs: certified for their true class, for a wrong one, or not at all."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from sigmax.report.accuracy import certified_counts, checked_radii, interval
from sigmax.report.runs import Source, load

if TYPE_CHECKING:
    import pandas as pd


def outcome_shares(
    run: Source, *, radius: float = 0.0, strict: bool = False, level: float = 0.95
) -> "pd.DataFrame":
    """Every input in one of four rows: `certified`, `too small`, `misclassified`, `abstained`.

    Certified: the true class, with R >= `radius` (`strict`: R > `radius`); too small: the true class with less;
    misclassified: a wrong class was certified, with whatever radius. Columns: `inputs`, `share` and its
    Clopper-Pearson interval at `level`, `low` and `high`.
    """
    import pandas as pd

    run, asked = load(run), checked_radii(radius)
    right = sum(record.correct for record in run.records)
    abstained = sum(record.certificate.predicted is None for record in run.records)
    certified = int(certified_counts(run, asked, strict=strict)[0])
    inputs = {
        "certified": certified,
        "too small": right - certified,
        "misclassified": len(run.records) - right - abstained,
        "abstained": abstained,
    }
    counts = np.array(list(inputs.values()))
    low, high = interval(counts, len(run.records), level=level)
    columns = {"inputs": counts, "share": counts / len(run.records), "low": low, "high": high}
    return pd.DataFrame(columns, index=pd.Index(list(inputs), name="outcome"))


def reasons(run: Source) -> "pd.Series[int]":
    """How often each outcome was recorded, the most frequent first: why the run abstained where it did."""
    import pandas as pd

    times = Counter(record.certificate.outcome.name.lower() for record in load(run).records)
    found = dict(times.most_common())
    return pd.Series(list(found.values()), index=pd.Index(list(found), name="outcome"), name="inputs")
