"""What became of the inputs: certified for their true class, for a wrong one, or not at all; in all, and by class.

# A_c(r) share of the inputs of class c certified for it with R >= r
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats, certified_counts, checked_radii, interval
from sigmax.report.runs import Source, labelled, load


def outcome_shares(run: Source, *, radius: float = 0.0) -> pd.DataFrame:
    """Every input in one of four rows: `certified`, `too small`, `misclassified`, `abstained`.

    Certified: the true class, with R >= `radius`; too small: the true class with less. Columns: `inputs`, `share` and
    its 95% Clopper-Pearson interval, `low` and `high`. Of a run without labels any class counts as the true one.
    """
    run, asked = load(run), checked_radii(radius)
    right = sum(record.counts for record in run.records)
    abstained = sum(record.certificate.predicted is None for record in run.records)
    certified = int(certified_counts(run, asked)[0])
    inputs = {
        "certified": certified,
        "too small": right - certified,
        **({"misclassified": len(run.records) - right - abstained} if run.labelled else {}),
        "abstained": abstained,
    }
    counts = np.array(list(inputs.values()))
    low, high = interval(counts, len(run.records))
    columns = {"inputs": counts, "share": counts / len(run.records), "low": low, "high": high}
    return pd.DataFrame(columns, index=pd.Index(list(inputs), name="outcome"))


def answers_by_sigma(run: Source) -> pd.DataFrame:
    """Which noise level answered how many inputs, and how well: one row for each sigma, rising.

    Columns: `inputs`; of these `right` (the true class certified), `misclassified` and `abstained`; and the
    `mean_radius` of those that are right, without labels of all that are answered.
    """
    run = load(run)
    sigmas = [record.certificate.sigma for record in run.records]
    return _answers(run, "sigma", [np.nan if sigma is None else sigma for sigma in sigmas])


def answers_by_part(run: Source) -> pd.DataFrame:
    """The same by the part that answered: the levels of a cascade, the experts of a router; "" where none was asked."""
    run = load(run)
    return _answers(run, "part", [record.certificate.answered_by or "" for record in run.records])


def _answers(run: Run, name: str, keys: Sequence[float] | Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            name: keys,
            "inputs": 1,
            "right": [int(record.counts) for record in run.records],
            "abstained": [int(record.certificate.predicted is None) for record in run.records],
            "radius": [record.certificate.radius if record.counts else 0.0 for record in run.records],
        }
    )
    found = frame.groupby(name, dropna=False).sum()
    found.insert(2, "misclassified", found["inputs"] - found["right"] - found["abstained"])
    found["mean_radius"] = found.pop("radius") / found["right"]
    return found if run.labelled else found.assign(right=np.nan, misclassified=np.nan)


def reasons(run: Source) -> "pd.Series[int]":
    """How often each outcome was recorded, the most frequent first: why the run abstained where it did."""
    times = Counter(record.certificate.outcome.name.lower() for record in load(run).records)
    found = dict(times.most_common())
    return pd.Series(list(found.values()), index=pd.Index(list(found), name="outcome"), name="inputs")


def class_accuracy(run: Source, radii: float | Sequence[float] | Floats = 0.0) -> pd.DataFrame:
    """A_c(r) of every class: `label`, `radius`, `inputs`, `accuracy`, and its 95% interval `low`, `high`."""
    run, asked = load(run), checked_radii(radii)
    parts = []
    for label, own in by_class(run).items():
        k, n = certified_counts(own, asked), len(own.records)
        low, high = interval(k, n)
        columns = {"label": label, "radius": asked, "inputs": n, "accuracy": k / n, "low": low, "high": high}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def class_spread(run: Source, radii: float | Sequence[float] | Floats = 0.0) -> pd.DataFrame:
    """How unlike the classes are at each radius: the worst and the best of them, and what lies between.

    `spread` is best - worst, `deviation` the standard deviation over classes. With few inputs a class the extremes are
    partly chance: `class_accuracy` has the intervals.
    """
    asked = checked_radii(radii)
    frame = class_accuracy(run, asked)
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
    labels = sorted({record.label for record in labelled(run, "a metric by class").records if record.label is not None})
    return {
        label: replace(run, records=tuple(record for record in run.records if record.label == label))
        for label in labels
    }
