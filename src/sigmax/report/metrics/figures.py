"""What a table says of a run, from its records one at a time: eight bytes are kept of each that counts."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import sigma_of


@dataclass(frozen=True)
class Figures:
    """Sums over a run. `radii`: those that count, rising; `sigmas`: the noise levels that answered."""

    plan: Plan
    inputs: int
    abstained: int
    samples: int
    seconds: float
    radii: NDArray[np.float64]
    sigmas: frozenset[float]


def figures_of(plan: Plan, records: Iterable[Record]) -> Figures:
    """One pass over the records."""
    inputs = abstained = samples = 0
    seconds = 0.0
    radii, sigmas = array("d"), set[float]()
    for record in records:
        certificate = record.certificate
        inputs += 1
        abstained += certificate.predicted is None
        samples += certificate.samples
        seconds += record.seconds
        if record.counts:
            radii.append(certificate.radius)
        sigma = sigma_of(plan, certificate)
        if not math.isnan(sigma):
            sigmas.add(sigma)
    return Figures(plan, inputs, abstained, samples, seconds, np.sort(np.array(radii)), frozenset(sigmas))
