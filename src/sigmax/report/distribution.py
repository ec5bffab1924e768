"""The distribution of p_A: how often the base classifier is right under noise, input by input.

# p_A share of an input's noisy copies that get its true class; k of n votes estimate it

It depends on no alpha and, for large n, hardly on n: what certificates of any size can be worked out from.
Source: Sun et al. (2025), "Average certified radius is a poor metric for randomized smoothing", Sec. 7 and App. B.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.planning import least_votes
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, interval, reached
from sigmax.report.fairness import by_class
from sigmax.report.runs import Source, load
from sigmax.report.votes import UNKNOWN, true_class_votes

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = "p share low high".split()


def vote_shares(run: Source) -> "pd.DataFrame":
    """One row an input: `index`, `label` and `p_A`, the share of its estimation votes that its true class got.

    `low` and `high` are the least and the largest share that the record allows: the same as `p_A` where votes were
    counted, a range where it was worked out from a printed radius. NaN where nothing is known: inputs that a log
    without counts does not certify for their true class, and those on which a router asked no voting expert.
    A dual run's votes are those of the expert the router put first. A run with adaptive sampling is refused: votes
    that end when enough was seen show no fair share.
    """
    import pandas as pd

    run = load(run)
    votes = true_class_votes(run)
    known = votes.n != UNKNOWN
    shares = {
        name: np.where(known, k / np.where(known, votes.n, 1), np.nan)
        for name, k in (("p_A", votes.k), ("low", votes.low), ("high", votes.high))
    }
    indices, labels = [record.index for record in run.records], [record.label for record in run.records]
    return pd.DataFrame({"index": indices, "label": labels, **shares})


def ecdf(run: Source, p: float | Sequence[float] | Floats | None = None, *, level: float = 0.95) -> "pd.DataFrame":
    """The empirical distribution of p_A, as the papers draw it: `share` of inputs with p_A >= `p`.

    Without `p` it is the whole step function, one row for each value at which it falls: a share holds from above
    the row before up to the row's own p. `low` and `high` are the Clopper-Pearson interval at `level` over inputs,
    at each p by itself.

    A log without counts says nothing of p_A below one half, and asking is refused; between one half and the least
    share that its draws certify (`known_from`) the share is a lower limit, as in the papers' own figures.
    """
    run = load(run)
    return _distribution(run, vote_shares(run), p, level)


def ecdf_by_class(
    run: Source, p: float | Sequence[float] | Floats | None = None, *, level: float = 0.95
) -> "pd.DataFrame":
    """`ecdf` of the inputs of each true class by itself: its columns after one more, `label`."""
    import pandas as pd

    run = load(run)
    parts = []
    for label, own in by_class(run).items():
        part = ecdf(own, p, level=level)
        part.insert(0, "label", label)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def known_from(run: Source) -> float:
    """The least p from which on the distribution is fully known: 0 where votes were counted.

    Of a log without counts it is the least share of votes that certifies anything at its n and alpha.
    """
    run = load(run)
    if run.plan.method != "imported":
        return 0.0
    return float(least_votes(0.0, sigma=1.0, n=run.plan.n, alpha=run.plan.alpha)) / run.plan.n


def _distribution(
    run: Run, shares: "pd.DataFrame", p: float | Sequence[float] | Floats | None, level: float
) -> "pd.DataFrame":
    import pandas as pd

    values = np.sort(shares["p_A"].dropna().to_numpy())
    asked = _steps(run, values) if p is None else checked_shares(p)
    if run.plan.method == "imported" and np.any(asked < 0.5):
        raise RequestError(
            f"{run.path.name} was imported from a log without counts, which tells nothing of p_A below 0.5; "
            f"got p={float(asked.min()):g}. Ask from 0.5 on, or certify again to have counts"
        )
    k, inputs = reached_shares(values, asked), len(run.records)
    low, high = interval(k, inputs, level=level)
    return pd.DataFrame(dict(zip(COLUMNS, (asked, k / inputs, low, high), strict=True)))


def _steps(run: Run, values: Floats) -> Floats:
    return np.unique(np.append(values, 0.5 if run.plan.method == "imported" else 0.0))


def reached_shares(values: Floats, p: Floats) -> NDArray[np.int64]:
    """How many of the rising `values` are at least each p; 0.7 is 70,000 of 100,000, however either is stored."""
    return reached(values, p - 1e-12)


def checked_shares(p: float | Sequence[float] | Floats) -> Floats:
    """Shares as an array of at least one number from 0 to 1."""
    asked = np.atleast_1d(np.asarray(p, dtype=np.float64))
    if asked.ndim != 1 or not asked.size or not np.all((asked >= 0) & (asked <= 1)):
        raise RequestError(f"p must be a list of shares from 0 to 1; got {p!r}")
    return asked
