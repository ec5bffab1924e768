"""Published curves of certified accuracy turned into distributions of p_A, and back.

# A(r) share of inputs certified with R >= r by n samples at alpha; F(p) share of inputs with p_A >= p
# r(k) the radius k of n votes prove; k(r) the fewest votes that prove r
# Then A(r) = F(k(r) / n) and F(k / n) = A(r(k))

Both are exact for the shares of the n votes cast; that those are p_A itself holds only in the limit of many samples.
Needs: one sigma, the one-sided bound, and accuracies counted with R >= r (the papers' `>=`).
Source: Sun et al. (2025), App. B.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sigmax.errors import RequestError
from sigmax.planning import least_votes
from sigmax.report.metrics.accuracy import Floats, checked_radii
from sigmax.report.metrics.distribution import checked_shares

Numbers = Sequence[float] | Floats


def share_of_radius(radii: float | Numbers, *, sigma: float, n: int, alpha: float) -> Floats:
    """k(r) / n: the least share of n votes that certifies each radius; NaN where not even all of them do."""
    votes = np.asarray(least_votes(checked_radii(radii), sigma=sigma, n=n, alpha=alpha))
    return np.where(votes <= n, votes / n, np.nan)


def curve_to_ecdf(radii: Numbers, accuracy: Numbers, *, sigma: float, n: int, alpha: float) -> pd.DataFrame:
    """A published curve A(r) as points of the distribution of p_A: columns `p` and `share`, F(p), by rising p.

    One row for each radius that n samples can certify. Where several radii need the same votes the largest of them
    counts, which is the one whose accuracy is exactly F there.
    """
    r, share = _curve(radii, accuracy, "radii", "accuracy")
    p = share_of_radius(r, sigma=sigma, n=n, alpha=alpha)
    frame = pd.DataFrame({"p": p, "share": share}).dropna()
    return frame.drop_duplicates("p", keep="last").reset_index(drop=True)


def ecdf_to_curve(
    p: Numbers, share: Numbers, radii: float | Numbers, *, sigma: float, n: int, alpha: float
) -> pd.DataFrame:
    """What a distribution F of p_A lets expect of n samples at alpha: columns `radius`, `accuracy`, `low`, `high`.

    `accuracy` is F at the least share that certifies the radius, on a straight line between the points of F that
    are given; it lies between `low` and `high`, the values of F at the points around it. Beyond the last point
    `low` is 0; before the first nothing is known (NaN) but that F is no smaller than there. 0 where out of reach.
    """
    known_p, known = _curve(p, share, "p", "share")
    checked_shares(known_p)
    asked = checked_radii(radii)
    needed = share_of_radius(asked, sigma=sigma, n=n, alpha=alpha)
    place = np.searchsorted(known_p, needed - 1e-12, side="left")  # the first point at or above what is needed
    low = np.append(known, 0.0)[place]
    exact = np.abs(np.append(known_p, np.inf)[place] - needed) < 1e-12
    high = np.where(exact, low, np.where(place > 0, known[np.maximum(place - 1, 0)], np.nan))
    between = np.interp(needed, known_p, known, left=np.nan, right=0.0)
    columns = {"accuracy": np.where(exact, low, between), "low": low, "high": high}
    reached = ~np.isnan(needed)
    return pd.DataFrame({"radius": asked, **{name: np.where(reached, v, 0.0) for name, v in columns.items()}})


def _curve(x: Numbers, y: Numbers, x_name: str, y_name: str) -> tuple[Floats, Floats]:
    """Two lists that make a falling curve, by rising x."""
    at, values = checked_radii(x), np.asarray(y, dtype=np.float64)
    if values.shape != at.shape or not np.all((values >= 0) & (values <= 1)):
        raise RequestError(
            f"expected one {y_name} from 0 to 1 for each of the {len(at)} {x_name}, got {y!r}; divide percents by 100"
        )
    order = np.argsort(at, kind="stable")
    if np.any(np.diff(values[order]) > 1e-12) or np.any(np.diff(at[order]) == 0):
        raise RequestError(f"expected different {x_name}, and {y_name} that never rises with them; got {y!r}")
    return at[order], values[order]
