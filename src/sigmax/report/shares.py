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


def answers_by_sigma(run: Source) -> "pd.DataFrame":
    """Which noise answered how many inputs, and how well: one row for each noise level in charge, rising.

    In charge is the expert the router put first, the router itself where it named the class, the last scale of a
    cascade. Columns: `inputs`; of these `right` (the true class certified), `misclassified` and `abstained`; and
    `mean_radius` of those that are right. Inputs for which nobody was asked have the noise NaN.
    """
    import pandas as pd

    records = load(run).records
    given = [record.certificate for record in records]
    frame = pd.DataFrame(
        {
            "sigma": [np.nan if c.sigma is None else c.sigma for c in given],
            "inputs": 1,
            "right": [int(record.correct) for record in records],
            "abstained": [int(c.predicted is None) for c in given],
            "radius": [c.radius if record.correct else 0.0 for c, record in zip(given, records, strict=True)],
        }
    )
    found = frame.groupby("sigma", dropna=False).sum()
    found.insert(2, "misclassified", found["inputs"] - found["right"] - found["abstained"])
    found["mean_radius"] = found.pop("radius") / found["right"]
    return found


def reasons(run: Source) -> "pd.Series[int]":
    """How often each outcome was recorded, the most frequent first: why the run abstained where it did."""
    import pandas as pd

    times = Counter(record.certificate.outcome.name.lower() for record in load(run).records)
    found = dict(times.most_common())
    return pd.Series(list(found.values()), index=pd.Index(list(found), name="outcome"), name="inputs")
