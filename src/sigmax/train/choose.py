"""Which noise levels are worth an expert? Chosen from the radii that a grid of them certifies.

# R_s(x): the radius that noise s certifies for the true class of input x, 0 where it does not
# F(S) = value of the radii max over s in S of R_s(x): what a router that never errs would attain with the set S
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.jobs.label.labels import Labels
from sigmax.numbers import is_number, is_whole
from sigmax.report.metrics.accuracy import checked_radii

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Value = Callable[[Floats], float]  # what N radii, the best of a set for each input, are worth together
Objective = str | Sequence[float] | Floats | Value

MOST_SUBSETS = 1_000_000  # a minute or so on ten thousand inputs


class Optimum(NamedTuple):
    """The best of all sets of one size."""

    sigmas: tuple[float, ...]
    attained: float


@dataclass(frozen=True)
class Choice:
    """The noise levels chosen, and what perfect routing among the first 1, 2 ... of them attains."""

    sigmas: tuple[float, ...]  # the chosen, rising
    order: tuple[float, ...]  # in the order of choice: the first j of them are the greedy set of size j
    attained: tuple[float, ...]  # F of the first 1, 2 ... k of `order`
    objective: str  # what F measures
    whole: float  # F of the whole grid: no set attains more, where F is "acr" or certified accuracy
    optima: tuple[Optimum, ...] = ()  # the best set of each size, where `exact` asked for them

    def frame(self) -> "pd.DataFrame":
        """One row a size: the sigma added, F attained, the gain over the row before, the share of the grid's F."""
        import pandas as pd

        attained = np.array(self.attained)
        columns: dict[str, object] = {
            "size": range(1, len(self.order) + 1),
            "added": self.order,
            "attained": attained,
            "gain": np.diff(attained, prepend=0.0),
            "share": attained / self.whole if self.whole else np.full(len(attained), np.nan),
        }
        if self.optima:
            columns["optimum"] = [best.attained for best in self.optima]
            columns["optimal"] = [best.sigmas for best in self.optima]
        return pd.DataFrame(columns)


def choose_sigmas(
    table: "pd.DataFrame | Labels", k: int, objective: Objective = "acr", *, exact: bool = False
) -> Choice:
    """k noise levels of the grid, each added because it gains most: F is at least 1 - 1/e (63%) of the best set's.

    Guaranteed for "acr" and certified accuracy, which are monotone and submodular; usually greedy finds the best set
    itself, which `exact` checks by trying all sets of up to k. A real router attains less than F, so look at what the
    last sigmas gain before training experts for them.

    table: a column a sigma, a row an input, radii of the true class, 0 where it was not certified; or `Labels` whose
    experts form the grid. objective: "acr" (the mean radius), a list of radii (certified accuracy, the mean over them),
    or a function of the (N,) best radii, for which nothing is guaranteed.
    Source: Nemhauser, Wolsey & Fisher (1978), "An analysis of approximations for maximizing submodular set functions".
    """
    sigmas, radii = _grid(table)
    _check_size(k, len(sigmas), exact=exact)
    name, value = _objective(objective)
    chosen, attained = list[int](), list[float]()
    best = np.zeros(radii.shape[1])
    for _ in range(k):
        left = [s for s in range(len(sigmas)) if s not in chosen]
        reached = [_measured(value, np.maximum(best, radii[s])) for s in left]
        at = int(np.argmax(reached))  # the smallest sigma of equals
        chosen.append(left[at])
        attained.append(reached[at])
        best = np.maximum(best, radii[left[at]])
    return Choice(
        sigmas=tuple(sigmas[s] for s in sorted(chosen)),
        order=tuple(sigmas[s] for s in chosen),
        attained=tuple(attained),
        objective=name,
        whole=_measured(value, radii.max(axis=0)),
        optima=tuple(_optimum(sigmas, radii, size, value) for size in range(1, k + 1)) if exact else (),
    )


def _optimum(sigmas: Sequence[float], radii: Floats, size: int, value: Value) -> Optimum:
    sets = combinations(range(len(sigmas)), size)
    attained, best = max(
        ((_measured(value, np.maximum.reduce([radii[s] for s in chosen])), chosen) for chosen in sets),
        key=lambda found: found[0],
    )
    return Optimum(tuple(sigmas[s] for s in best), attained)


def _grid(table: "pd.DataFrame | Labels") -> tuple[list[float], Floats]:
    """The sigmas, rising, and the radii with a row a sigma."""
    columns, radii = _columns(table)
    sigmas = [float(sigma) for sigma in columns if is_number(sigma) and sigma > 0]
    if len(sigmas) < len(columns):
        raise RequestError(
            f"every column must be a noise level, a positive number; got {_listed(columns)}. "
            "Texts become numbers with table.columns.astype(float)"
        )
    if len(set(sigmas)) < len(sigmas):
        raise RequestError(f"every noise level may stand in the table once; got {_listed(sorted(sigmas))}")
    if not radii.size:
        raise RequestError(f"the table must hold at least one input and one sigma; its shape is {radii.shape}")
    bad = np.argwhere(~(np.isfinite(radii) & (radii >= 0)))
    if len(bad):
        row, column = bad[0]
        raise RequestError(
            f"radii must be numbers of at least 0, 0 where the true class was not certified; row {row} holds "
            f"{radii[row, column]} at sigma {sigmas[column]:g}"
        )
    order = np.argsort(sigmas)
    return [sigmas[s] for s in order], np.ascontiguousarray(radii[:, order].T)


def _columns(table: "pd.DataFrame | Labels") -> tuple[Sequence[Any], Floats]:
    import pandas as pd

    if isinstance(table, Labels):
        return table.sigmas, table.radii
    if not isinstance(table, pd.DataFrame):
        raise RequestError(
            f"expected a DataFrame (a column a sigma, a row an input) or Labels, got {type(table).__name__}"
        )
    try:
        return list(table.columns), table.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RequestError(f"the table must hold radii, which are numbers: {error}") from error


def _check_size(k: int, grid: int, *, exact: bool) -> None:
    if not is_whole(k) or not 1 <= k <= grid:
        raise RequestError(f"k must be a whole number from 1 to {grid}, the noise levels of the table; got {k!r}")
    subsets = sum(math.comb(grid, size) for size in range(1, k + 1))
    if exact and subsets > MOST_SUBSETS:
        raise RequestError(
            f"exact=True would try {subsets:,} sets of up to {k} of {grid} noise levels, at most {MOST_SUBSETS:,} "
            "are tried; use a smaller k or a coarser grid, or leave it out: the greedy choice needs no trying"
        )


def _objective(objective: Objective) -> tuple[str, Value]:
    if callable(objective):
        return getattr(objective, "__name__", type(objective).__name__), objective
    if isinstance(objective, str):
        if objective != "acr":
            raise RequestError(f"objective must be 'acr', a list of radii or a function; got {objective!r}")
        return "acr", lambda best: float(best.mean())
    try:
        asked = checked_radii(objective)
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"objective must be 'acr', a list of radii or a function, and radii at least 0; got {objective!r}"
        ) from error
    # A radius of 0 stands for an input that is not certified, so it does not count at r = 0 either.
    return f"certified accuracy at {_listed(asked)}", lambda best: float(
        np.mean([((best >= r) & (best > 0)).mean() for r in asked])
    )


def _measured(value: Value, best: Floats) -> float:
    found = value(best)
    if not is_number(found):
        raise RequestError(f"the objective must return one finite number for the (N,) best radii; got {found!r}")
    return float(found)


def _listed(values: Sequence[object] | Floats) -> str:
    return ", ".join(f"{value:g}" if is_number(value) else repr(value) for value in values)
