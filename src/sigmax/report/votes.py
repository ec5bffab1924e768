"""The votes a report works with: recorded ones, and those that must stand behind a published radius.

# k of n votes for a class; slack: half a unit in the last digit of a printed radius
"""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.planning import least_votes, radius_of
from sigmax.records.certificate import Outcome, Stage, in_charge
from sigmax.records.lines import Record
from sigmax.records.rounding import Precision
from sigmax.records.run import Run
from sigmax.report.questions import NO_SHARES, is_adaptive

Whole = NDArray[np.int64]

UNKNOWN = -1  # votes nobody recorded
_PRINTED = re.compile(r"as printed: (\d+) (decimals|significant digits)")


class Votes(NamedTuple):
    """For each input the votes of its true class, as a count and as the range it lies in, and out of how many.

    All are UNKNOWN where the record does not tell. Counted votes are exact: low = k = high.
    """

    k: Whole
    low: Whole
    high: Whole
    n: Whole


def true_class_votes(run: Run) -> Votes:
    """The estimation votes of every input's true class, in the order of the records.

    A dual run's are those of the expert the router put first; where a router named the class itself they are its
    own, and those that passed count against every class. A log without counts tells them by its radii, as exactly
    as these are printed, and only of inputs it certified for their true class. Refused where sampling was
    adaptive.
    """
    if run.plan.method == "imported":
        return _behind_a_log(run)
    if run.plan.method == "lipschitz":
        raise RequestError(
            f"{run.path.name} is of a deterministic classifier, which casts no votes; its p_A does not exist. "
            "Compare its certified accuracy instead"
        )
    if is_adaptive(run):
        raise RequestError(
            f"{run.path.name} was sampled adaptively: {NO_SHARES}. Compare certified accuracy at the radii it was "
            "asked about, or certify with fixed sampling"
        )
    told = [_counted(record) for record in run.records]
    k, n = (np.array(column, dtype=np.int64) for column in zip(*told, strict=True))
    return Votes(k, k, k, n)


def estimation(record: Record) -> Stage | None:
    """The votes that bound the class: of the expert in charge, where there are several; None where none voted."""
    return in_charge(s for s in record.certificate.stages if s.name.rpartition("/")[2] == "estimation")


def _counted(record: Record) -> tuple[int, int]:
    stage = estimation(record)
    if stage is None or not stage.n:
        return UNKNOWN, UNKNOWN
    if not 0 <= record.label < len(stage.counts):
        raise RequestError(
            f"input {record.index} is of class {record.label}, but the votes are on {len(stage.counts)} classes; "
            "run `sigmax verify` on the file"
        )
    return stage.counts[record.label], stage.n


def _behind_a_log(run: Run) -> Votes:
    _check_log(run)
    right = np.array([record.correct for record in run.records])
    printed = np.array([record.certificate.radius for record in run.records])
    sigma = run.frame()["sigma"].to_numpy(dtype=np.float64)
    k, low, high = (np.full(len(right), UNKNOWN, dtype=np.int64) for _ in range(3))
    precision = printed_precision(run)
    for noise in np.unique(sigma[right]):
        mine = right & (sigma == noise)
        k[mine], low[mine], high[mine] = _behind(printed[mine], precision, float(noise), run.plan.n, run.plan.alpha)
    return Votes(k, low, high, np.where(right, run.plan.n, UNKNOWN))


def _behind(
    printed: NDArray[np.float64], precision: Precision, sigma: float, n: int, alpha: float
) -> tuple[Whole, Whole, Whole]:
    """The count whose radius is nearest to each printed one, and the least and largest that print as it does."""
    radii, places = np.unique(printed, return_inverse=True)
    told: dict[str, Any] = {"sigma": sigma, "n": n, "alpha": alpha}
    slack = np.array([precision.slack(r) for r in radii])
    above = np.minimum(least_votes(radii, **told), n)
    below = np.maximum(above - 1, least_votes(0.0, **told))  # what was certified had votes enough for some radius
    nearer = np.abs(radius_of(below, **told) - radii) < np.abs(radius_of(above, **told) - radii)
    k = np.where(nearer, below, above)
    low = np.minimum(k, least_votes(np.maximum(0.0, radii - slack), **told))
    high = np.maximum(k, least_votes(np.nextafter(radii + slack, np.inf), **told) - 1)
    return k[places], low[places], high[places]


def printed_precision(run: Run) -> Precision:
    """To how many digits the radii of an imported log were printed, as its plan says."""
    found = _PRINTED.match(str(run.plan.rule.get("radii", "")))
    if found is None:
        raise RequestError(f"{run.path.name} does not say how its radii were printed; import the log again")
    return Precision(int(found[1]), fixed=found[2] == "decimals")


def _check_log(run: Run) -> None:
    if "sigmas" in run.plan.rule:
        raise RequestError(
            f"{run.path.name} is the log of a cascade: a radius of several bounds does not tell the votes behind it"
        )
    impossible = sum(record.certificate.outcome is Outcome.IMPOSSIBLE for record in run.records)
    if impossible:
        raise RequestError(
            f"{impossible:,} radii of {run.path.name} are impossible with n={run.plan.n} draws at "
            f"alpha={run.plan.alpha:g}, so no votes stand behind them; import the log with the sigma, n and alpha "
            "that it fits (the note of the import names an alpha, if one will do)"
        )
