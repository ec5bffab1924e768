"""The best of several runs, radius by radius and input by input: over sigma, or of the experts of a dual run.

# R_s(x) radius of run s (a noise level, an expert) for the true class of x, 0 without one
# envelope: the best run at each radius; oracle: max_s R_s(x). Neither is a certificate: the oracle chooses by the
# true class, the envelope by the radius asked about

The fair way to show a method whose sigma is a setting: at each radius the best run, and which it was.
Source: Sun et al. (2025), Sec. 7; Carlini et al. (2023) report so.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats, certified_counts, certified_radii, grid, interval, reached
from sigmax.report.metrics.radii import true_radii
from sigmax.report.runs import SAME_SIGMA, Source, labelled, named, on_shared_inputs


@dataclass(frozen=True, eq=False)
class Reference:
    """A curve of certified accuracy that no system certifies: at each radius the best of some lists of radii.

    `choices`: for each classifier to choose from, the radii it certifies for true classes, rising.
    """

    choices: tuple[Floats, ...]
    inputs: int  # that the radii are of, those without one included

    def counts(self, radii: Floats) -> NDArray[np.int64]:
        """How many inputs the best choice certifies at each radius."""
        counts = np.array([reached(choice, radii) for choice in self.choices])
        return np.asarray(counts.max(axis=0))

    def accuracy(self, radii: Floats) -> Floats:
        """The share of inputs the best choice certifies at each radius."""
        return self.counts(radii) / self.inputs

    def steps(self) -> tuple[Floats, Floats]:
        """The radii at which the curve falls, from 0 on, and the accuracy up to each of them."""
        radii = np.unique(np.concatenate([[0.0], *self.choices]))
        return radii, self.accuracy(radii)

    @property
    def acr(self) -> float:
        """The area under the curve: of one choice, its average certified radius."""
        radii, accuracy = self.steps()
        return float(np.sum(np.diff(radii, prepend=0.0) * accuracy))

    def same_as(self, other: "Reference") -> bool:
        """Whether both are the same curve of as many inputs."""
        return self.inputs == other.inputs and all(
            np.array_equal(a, b) for a, b in zip(self.steps(), other.steps(), strict=True)
        )


def oracle_of(best: Floats) -> Reference:
    """The curve of the best expert's radii, 0 where none certifies the true class."""
    return Reference((np.sort(best[best > 0]),), len(best))


def envelope_of(runs: Sequence[Run]) -> Reference:
    """The curve of the best run at each radius; the runs hold the same inputs."""
    return Reference(tuple(certified_radii(run) for run in runs), len(runs[0].records))


def best_over_sigma(
    runs: Iterable[Source],
    radii: float | Sequence[float] | Floats | None = None,
    *,
    strict: bool = False,
) -> pd.DataFrame:
    """The envelope of the runs with its choices: `radius`, `run`, `accuracy`, `low`, `high`.

    On the inputs that all runs hold. `run` is the name of the best at that radius (the first of equals), empty
    where none certifies anything. The interval is Clopper-Pearson's of that one run at 95%: as the best of
    several was taken after looking, it is a little too favourable.
    """
    shared = on_the_same_inputs(runs)
    asked = grid(shared.values(), np.atleast_1d(radii) if isinstance(radii, int | float) else radii)
    counts = np.array([certified_counts(run, asked, strict=strict) for run in shared.values()])
    best, inputs = counts.max(axis=0), len(next(iter(shared.values())).records)
    names = np.where(best > 0, np.array(list(shared))[counts.argmax(axis=0)], "")
    low, high = interval(best, inputs)
    return pd.DataFrame({"radius": asked, "run": names, "accuracy": best / inputs, "low": low, "high": high})


def radii_by_sigma(runs: Iterable[Source]) -> pd.DataFrame:
    """R_s(x): one row an input that all runs hold (the index), one column a noise level, rising.

    Needs runs of one noise level each, no two the same.
    """
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
    frame = radii_by_sigma(runs)
    radii, sigmas = frame.to_numpy(), frame.columns.to_numpy(dtype=np.float64)
    best = np.where(radii.max(axis=1) > 0, sigmas[radii.argmax(axis=1)], np.nan)
    return pd.Series(best, index=frame.index, name="best sigma")


def on_the_same_inputs(runs: Iterable[Source]) -> Mapping[str, Run]:
    """The runs by name, cut to the inputs that all of them hold."""
    by_name = {name: labelled(run, "the best of several runs") for name, run in named(runs).items()}
    return dict(zip(by_name, on_shared_inputs(list(by_name.values())), strict=True))


def sigma_of(name: str, run: Run) -> float:
    """The one noise level of a run."""
    used = sorted(set(run.frame()["sigma"].dropna()))
    if len(used) != 1 or not used[0]:
        raise RequestError(f"expected a run of one noise level, got {name} with {used or 'none'}; leave it out")
    return float(used[0])
