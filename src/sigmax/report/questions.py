"""What a run was asked, where its sampling could stop early: which of its numbers answer that, and which do not.

# T the largest radius asked about; infinite where the radius itself was asked for

With fixed sampling every input has all its draws. With adaptive sampling an input's votes end when what was asked
is known: its radius is proved, but its share of votes at that moment is no fair estimate of p_A, and a radius that
was not asked about was not sought.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sigmax.certify.sampling import in_words, remade
from sigmax.records.run import Run
from sigmax.report.schemes import names

Floats = NDArray[np.float64]

NO_SHARES = "its votes end when what was asked is known, and the shares they then show are no fair estimate of p_A"


def is_adaptive(run: Run) -> bool:
    """Whether an input's votes could end before all n draws were cast."""
    return remade(run.plan.sampling).kind == "adaptive"


def targets(run: Run) -> tuple[float, ...]:
    """The radii asked about, rising; none where the radius itself was asked for."""
    return remade(run.plan.sampling).targets


def furthest_asked(*runs: Run) -> float:
    """T: beyond it at least one of the runs was not asked anything."""
    return min((max(targets(run), default=math.inf) for run in runs), default=math.inf)


def shared_targets(*runs: Run) -> tuple[float, ...]:
    """The radii that all runs with targets were asked about; none where no run had any, or they share none."""
    asked = [set(targets(run)) for run in runs if targets(run)]
    return tuple(sorted(set.intersection(*asked))) if asked else ()


def up_to(places: Floats, end: float) -> Floats:
    """The places of a step function up to `end`, which becomes the last of them; all where there is no end."""
    return places if math.isinf(end) else np.append(places[places < end], end)


def mean_draws(run: Run) -> float:
    """The votes cast an input, all stages together, on average."""
    return sum(record.certificate.draws for record in run.records) / len(run.records)


def on_question(run: Run) -> list[str]:
    """Sentences on what a reader must not take from a run that could stop early; none where it could not."""
    if not is_adaptive(run):
        return []
    sampling = remade(run.plan.sampling)
    told = [f"sampled: {in_words(sampling)}; no distribution of p_A, since {NO_SHARES}"]
    if sampling.targets:
        told.append(
            f"only at {listed(sampling.targets)} are its accuracies what it was asked for; a radius in between is "
            f"proved but was not sought, beyond {sampling.targets[-1]:g} nothing was asked, and its ACR and its "
            "abstentions are those of this question"
        )
    if sampling.tolerance:
        told.append(f"its radii may fall short of what all draws would prove by {sampling.tolerance:g} of sigma")
    if run.plan.method == "dual" and not names(run.plan.rule):
        told.append("R_sigma and dRs end where the router had shown enough")
    return told


def listed(radii: tuple[float, ...]) -> str:
    """The radii as text: '0.25, 0.5'."""
    return ", ".join(f"{radius:g}" for radius in radii)
