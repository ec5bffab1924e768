"""What one system certifies more than another, input by input."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sigmax import bounds
from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats, checked_radii
from sigmax.report.metrics.adaptive import targets
from sigmax.report.runs import Source, labelled, load, on_shared_inputs


def accuracy_gain(first: Source, second: Source, radii: float | Sequence[float] | Floats) -> pd.DataFrame:
    """By how much the second run's certified accuracy exceeds the first's, on the inputs that both hold.

    Columns: `radius`; `gain`; `error`, one standard error of the gain, for inputs drawn at random, far smaller than
    that of two accuracies by themselves; how many inputs were `won` (only the second run certifies the true class
    there) and `lost`; `chance`, that inputs which favour neither would be so uneven (the exact sign test, at each
    radius by itself); and of how many `inputs`. NaN at a radius that a run with targets was not asked about.
    """
    asked = checked_radii(radii)
    runs = on_shared_inputs([labelled(load(source), "accuracy") for source in (first, second)])
    before, after = (_certified(run, asked) for run in runs)
    won, lost, n = (after & ~before).sum(axis=0), (before & ~after).sum(axis=0), len(before)
    gain = (won - lost) / n
    found = {
        "gain": gain,
        "error": np.sqrt(np.maximum(0.0, (won + lost) / n - gain**2) / n),  # each input counts 1, 0 or -1
        "won": won,
        "lost": lost,
        "chance": [_chance(int(k), int(k + m)) for k, m in zip(won, lost, strict=True)],
    }
    sought = np.all([np.isin(asked, targets(run)) for run in runs if targets(run)], axis=0)
    columns = {name: np.where(sought, values, np.nan) for name, values in found.items()}
    return pd.DataFrame({"radius": asked, **columns, "inputs": n})


def _certified(run: Run, radii: Floats) -> NDArray[np.bool_]:
    """Whether each input's true class is certified at each radius, (inputs, radii)."""
    correct = np.array([record.correct for record in run.records])
    found = np.array([record.certificate.radius for record in run.records])[:, None]
    return correct[:, None] & (found >= radii)


def _chance(won: int, differ: int) -> float:
    return bounds.two_sided_p_value(won, differ) if differ else 1.0
