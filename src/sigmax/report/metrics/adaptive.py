"""What a run was asked, where its sampling could stop early: which of its numbers answer that, and which do not.

# T the largest radius asked about; infinite where the radius itself was asked for

With fixed sampling every input has all its samples. With adaptive sampling an input's votes stop when the answer is
known: its radius is proved, but its share of votes at that moment is a biased estimate of p_A, and radii that were not
asked about may be larger than what is proved.
"""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.rules.registry import parts_of
from sigmax.rules.sampling import in_words, remade

Floats = NDArray[np.float64]

NO_SHARES = "its votes stop when the answer is known, so their shares are biased estimates of p_A"


class Planned(Protocol):
    """Whatever has a run's plan."""

    @property
    def plan(self) -> Plan:
        """What was asked."""


def is_adaptive(run: Planned) -> bool:
    """Whether an input's votes could end before all n samples were cast."""
    return remade(run.plan.sampling).kind == "adaptive"


def targets(run: Planned) -> tuple[float, ...]:
    """The radii asked about, rising; none where the radius itself was asked for."""
    return remade(run.plan.sampling).targets


def furthest_asked(*runs: Planned) -> float:
    """T: beyond it at least one of the runs was not asked anything."""
    return min((max(targets(run), default=math.inf) for run in runs), default=math.inf)


def where_asked(run: Run, radii: Floats, values: Floats) -> Floats:
    """The values at the radii; NaN beyond the largest radius the run was asked about."""
    return np.where(radii <= furthest_asked(run), values, np.nan)


def shared_targets(*runs: Run) -> tuple[float, ...]:
    """The radii that all runs with targets were asked about; none where no run had any, or they share none."""
    asked = [set(targets(run)) for run in runs if targets(run)]
    return tuple(sorted(set.intersection(*asked))) if asked else ()


def up_to(places: Floats, end: float) -> Floats:
    """The places of a step function up to `end`, which becomes the last of them; all where there is no end."""
    return places if math.isinf(end) else np.append(places[places < end], end)


def mean_samples(run: Run) -> float:
    """The votes cast an input, all stages together, on average."""
    return sum(record.certificate.samples for record in run.records) / len(run.records)


def on_sampling(run: Run) -> list[str]:
    """Sentences on what a reader must not take from a run that could stop early; none where it could not."""
    if not is_adaptive(run):
        return []
    sampling = remade(run.plan.sampling)
    sentences = [f"sampled: {in_words(sampling)}; no distribution of p_A, since {NO_SHARES}"]
    if sampling.targets:
        sentences.append(
            f"it was asked about the radii {listed(sampling.targets)} alone: read its accuracies there. Between them "
            f"it may prove less than it could, beyond {sampling.targets[-1]:g} nothing was asked, and its ACR and "
            "abstentions depend on these targets"
        )
    if sampling.tolerance:
        sentences.append(f"its radii may fall short of what all samples would prove by {sampling.tolerance:g} of sigma")
    if any(part.picks for part in parts_of(run.plan.rule)):
        sentences.append("R_sigma and dRs end where the router had proved enough")
    return sentences


def listed(radii: tuple[float, ...]) -> str:
    """The radii as text: '0.25, 0.5'."""
    return ", ".join(f"{radius:g}" for radius in radii)
