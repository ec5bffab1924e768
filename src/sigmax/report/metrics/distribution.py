"""The distribution of p_A: how often the base classifier is right under noise, input by input.

# p_A share of an input's noisy copies that get its true class; k of n votes estimate it
# slack: half a unit in the last digit of a published radius, which implies its votes

It depends on no alpha and, for large n, hardly on n: what certificates of any size can be worked out from.
Source: Sun et al. (2025), "Average certified radius is a poor metric for randomized smoothing", Sec. 7 and App. B.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.planning import least_votes, radius_of
from sigmax.records.lines import Record
from sigmax.records.rounding import Precision
from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import LEVEL, Floats, interval, reached
from sigmax.report.metrics.adaptive import NO_SHARES, is_adaptive
from sigmax.report.metrics.shares import by_class
from sigmax.report.runs import Source, labelled, load, sigma_by_record
from sigmax.rules.certificate import Outcome, Role, Stage
from sigmax.rules.registry import entry

Whole = NDArray[np.int64]

UNKNOWN = -1  # votes that were not recorded
_PRINTED = re.compile(r"as printed: (\d+) (decimals|significant digits)")
COLUMNS = "p share low high".split()


class Votes(NamedTuple):
    """For each input the votes of its true class, as a count and as the range it lies in, and out of how many.

    All are UNKNOWN where the record does not say. Counted votes are exact: low = k = high.
    """

    k: Whole
    low: Whole
    high: Whole
    n: Whole


def true_class_votes(run: Run) -> Votes:
    """The estimation votes of every input's true class, in the order of the records.

    Of a scheme with parts they are those of the part that answered; votes to defer count against every class. A log
    without counts implies them by its radii, as exactly as these are printed, and only for inputs it certified for
    their true class. Refused where sampling was adaptive, and without labels.
    """
    labelled(run, "p_A, the share of votes for the true class,")
    if run.plan.imported:
        return _behind_a_log(run)
    if not entry(run.plan.method).votes:
        raise RequestError(
            f"{run.path.name} is of a deterministic classifier, which samples no votes; it has no p_A to estimate. "
            "Compare its certified accuracy instead"
        )
    if is_adaptive(run):
        raise RequestError(
            f"{run.path.name} was sampled adaptively: {NO_SHARES}. Compare certified accuracy at the radii it was "
            "asked about, or certify with fixed sampling"
        )
    counted = [_counted(record) for record in run.records]
    k, n = (np.array(column, dtype=np.int64) for column in zip(*counted, strict=True))
    return Votes(k, k, k, n)


def estimation(record: Record) -> Stage | None:
    """The votes that bound the class, of the part that answered; None where it cast none."""
    c = record.certificate
    return next((s for s in c.stages if s.part == c.answered_by and s.role is Role.ESTIMATION), None)


def _counted(record: Record) -> tuple[int, int]:
    stage = estimation(record)
    if stage is None or not stage.n:
        return UNKNOWN, UNKNOWN
    assert record.label is not None  # a run without labels was refused
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
    sigma = sigma_by_record(run)
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
    request: dict[str, Any] = {"sigma": sigma, "n": n, "alpha": alpha}
    slack = np.array([precision.slack(r) for r in radii])
    above = np.minimum(least_votes(radii, **request), n)
    below = np.maximum(above - 1, least_votes(0.0, **request))  # what was certified had votes enough for some radius
    nearer = np.abs(radius_of(below, **request) - radii) < np.abs(radius_of(above, **request) - radii)
    k = np.where(nearer, below, above)
    low = np.minimum(k, least_votes(np.maximum(0.0, radii - slack), **request))
    high = np.maximum(k, least_votes(np.nextafter(radii + slack, np.inf), **request) - 1)
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
            f"{run.path.name} is the log of a cascade: its radii depend on several bounds and do not imply the votes"
        )
    impossible = sum(record.certificate.outcome is Outcome.IMPOSSIBLE for record in run.records)
    if impossible:
        raise RequestError(
            f"{impossible:,} radii of {run.path.name} are impossible with n={run.plan.n} samples at "
            f"alpha={run.plan.alpha:g}, so no votes stand behind them; import the log with the sigma, n and alpha "
            "that it fits (the note of the import names an alpha, if one will do)"
        )


def vote_shares(run: Source) -> pd.DataFrame:
    """One row an input: `index`, `label` and `p_A`, the share of its estimation votes that its true class got.

    `low` and `high` are the least and the largest share that the record allows: a range where it was worked out from a
    printed radius. NaN where nothing is known. Of which votes, and which runs are refused: see `true_class_votes`.
    """
    run = load(run)
    votes = true_class_votes(run)
    known = votes.n != UNKNOWN
    shares = {
        name: np.where(known, k / np.where(known, votes.n, 1), np.nan)
        for name, k in (("p_A", votes.k), ("low", votes.low), ("high", votes.high))
    }
    indices, labels = [record.index for record in run.records], [record.label for record in run.records]
    return pd.DataFrame({"index": indices, "label": labels, **shares})


def ecdf(run: Source, p: float | Sequence[float] | Floats | None = None, *, level: float = LEVEL) -> pd.DataFrame:
    """The empirical distribution of p_A: `share` of inputs with p_A >= `p`, `low` and `high` its interval at `level`.

    Without `p` it is the whole step function: a share holds from above the row before up to the row's own p.
    A log without counts says nothing of p_A below one half, and asking is refused; between one half and the least
    share that its samples certify (`known_from`) the share is a lower limit, as in the papers' own figures.
    """
    run = load(run)
    values = np.sort(vote_shares(run)["p_A"].dropna().to_numpy())
    imported = run.plan.imported
    asked = np.unique(np.append(values, 0.5 if imported else 0.0)) if p is None else checked_shares(p)
    if imported and np.any(asked < 0.5):
        raise RequestError(
            f"{run.path.name} was imported from a log without counts, which says nothing about p_A below 0.5; "
            f"got p={float(asked.min()):g}. Ask from 0.5 on, or certify again to have counts"
        )
    k, inputs = reached_shares(values, asked), len(run.records)
    low, high = interval(k, inputs, level=level)
    return pd.DataFrame(dict(zip(COLUMNS, (asked, k / inputs, low, high), strict=True)))


def ecdf_by_class(run: Source, p: float | Sequence[float] | Floats | None = None) -> pd.DataFrame:
    """`ecdf` of the inputs of each true class by itself: its columns after one more, `label`."""
    run = load(run)
    parts = []
    for label, own in by_class(run).items():
        part = ecdf(own, p)
        part.insert(0, "label", label)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def known_from(run: Source) -> float:
    """The least p from which on the distribution is fully known: 0 where votes were counted.

    Of a log without counts it is the least share of votes that certifies anything at its n and alpha.
    """
    run = load(run)
    if not run.plan.imported:
        return 0.0
    return float(least_votes(0.0, sigma=1.0, n=run.plan.n, alpha=run.plan.alpha)) / run.plan.n


def reached_shares(values: Floats, p: Floats) -> NDArray[np.int64]:
    """How many of the rising `values` are at least each p; 0.7 is 70,000 of 100,000, however either is stored."""
    return reached(values, p - 1e-12)


def checked_shares(p: float | Sequence[float] | Floats) -> Floats:
    """Shares as an array of at least one number from 0 to 1."""
    asked = np.atleast_1d(np.asarray(p, dtype=np.float64))
    if asked.ndim != 1 or not asked.size or not np.all((asked >= 0) & (asked <= 1)):
        raise RequestError(f"p must be a list of shares from 0 to 1; got {p!r}")
    return asked
