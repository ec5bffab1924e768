"""What routing could reach at best, and what experts reach without it: curves to hold a dual run against.

# R_j(x) radius of expert j for the true class of x, 0 without one

Neither is a certificate: the oracle looks at the true class to choose the expert, the envelope at the radius asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_radii, checked_radii, reached
from sigmax.report.runs import Source, load
from sigmax.report.shared import on_shared_inputs, true_radii

if TYPE_CHECKING:
    import pandas as pd


def oracle_radii(expert_runs: Iterable[Source], *, alphas: Sequence[float] | None = None) -> "pd.Series[float]":
    """For each input that all runs hold, the radius of the expert that does best on it: max_j R_j(x).

    No router can make these experts certify more, but for the luck of their draws. `alphas`, one a run, asks for
    the radii that the runs' counts prove at these chances of error: the parts of alpha that a dual system leaves
    its experts (`DualRule.grants`), so that the two are held to the same proof.
    """
    import pandas as pd

    runs = _shared(expert_runs)
    if alphas is not None and len(alphas) != len(runs):
        raise RequestError(f"expected one alpha for each of the {len(runs)} runs; got {len(alphas)}")
    levels = [None] * len(runs) if alphas is None else list(alphas)
    best = np.max([true_radii(run, alpha=alpha) for run, alpha in zip(runs, levels, strict=True)], axis=0)
    index = pd.Index([record.index for record in runs[0].records], name="index")
    return pd.Series(best, index=index, name="oracle radius")


def envelope(
    expert_runs: Iterable[Source], radii: float | Sequence[float] | Floats, *, strict: bool = False
) -> "pd.Series[float]":
    """At each radius the certified accuracy of the run that does best there, over the inputs all runs hold.

    Each run counts as it is recorded, at its whole alpha: any one of them could be used instead of a dual system.
    See `certified_accuracy` for `strict`.
    """
    import pandas as pd

    asked = checked_radii(radii)
    accuracy = envelope_of(_shared(expert_runs)).accuracy(asked, strict=strict)
    return pd.Series(accuracy, index=pd.Index(asked, name="radius"), name="envelope")


def _shared(sources: Iterable[Source]) -> list[Run]:
    runs = [load(source) for source in ([sources] if isinstance(sources, Source) else sources)]
    if not runs:
        raise RequestError("expected the runs of the experts; none was given")
    return on_shared_inputs(runs)


@dataclass(frozen=True, eq=False)
class Reference:
    """A curve of certified accuracy that no system certifies: at each radius the best of some lists of radii.

    `choices`: for each classifier to choose from, the radii it certifies for true classes, rising.
    """

    choices: tuple[Floats, ...]
    inputs: int  # that the radii are of, those without one included

    def counts(self, radii: Floats, *, strict: bool = False) -> NDArray[np.int64]:
        """How many inputs the best choice certifies at each radius."""
        counts = np.array([reached(choice, radii, strict=strict) for choice in self.choices])
        return np.asarray(counts.max(axis=0))

    def accuracy(self, radii: Floats, *, strict: bool = False) -> Floats:
        """The share of inputs the best choice certifies at each radius."""
        return self.counts(radii, strict=strict) / self.inputs

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
