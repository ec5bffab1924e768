"""Certified accuracy worked out for other draws than were made: what `recertify` and its kin give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sigmax.report.accuracy import Floats, checked_radii

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Recertified:
    """What a run's inputs would be certified for with `n` draws at `alpha`: an expectation, not a certificate.

    `weight[i]` inputs (a part of one counts as its chance) are expected to be certified for their true class with
    exactly `radii[i]`, rising. `unknown` inputs have no votes on record and count as not certified.
    """

    n: int
    alpha: float
    inputs: int
    radii: Floats
    weight: Floats
    how: str
    unknown: int = 0

    def accuracy(self, radii: float | Sequence[float] | Floats, *, strict: bool = False) -> "pd.Series[float]":
        """The expected share of inputs with R >= r, for each r; `strict`: R > r. See `certified_accuracy`."""
        import pandas as pd

        asked = checked_radii(radii)
        place = np.searchsorted(self.radii, asked, side="right" if strict else "left")
        share = np.append(self._from_the_top, 0.0)[place] / self.inputs
        return pd.Series(share, index=pd.Index(asked, name="radius"), name="expected certified accuracy")

    def steps(self) -> tuple[Floats, Floats]:
        """The radii at which the expected accuracy falls, from 0 on, and the accuracy up to each of them."""
        radii = np.unique(np.append(0.0, self.radii))
        return radii, np.asarray(self.accuracy(radii), dtype=np.float64)

    @property
    def acr(self) -> float:
        """The expected average certified radius; see `average_radius` for why not to rank by it."""
        return float(np.sum(self.radii * self.weight)) / self.inputs

    @property
    def _from_the_top(self) -> Floats:
        """How many inputs reach each radius; summed from the top, where the terms are small."""
        return np.cumsum(self.weight[::-1])[::-1]


def collected(radii: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Each positive radius once, rising, with all the weight it has."""
    some = (radii > 0) & (weight > 0)
    once, places = np.unique(radii[some], return_inverse=True)
    return once, np.bincount(places, weights=weight[some], minlength=len(once)).astype(np.float64)
