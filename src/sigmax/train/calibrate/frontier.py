"""What one set of networks can be: accuracy at the smallest radius against that at the largest, by its thresholds."""

# A accuracies at the radii in %; E the envelope; first and far: the smallest radius, and the largest where E > 0

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sigmax.errors import RunError
from sigmax.files import written_whole
from sigmax.progress import Watch, silent
from sigmax.radius.noise import Gaussian, noise_in_words
from sigmax.rules.procedure import Rule
from sigmax.train.calibrate.calibrate import best_confidence, first_confidences
from sigmax.train.calibrate.estimate import Estimate

POINTS = 21  # weights from one end to the other


class Point(NamedTuple):
    """One calibration of the networks."""

    weight: float  # of the far radius; the first has the rest
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


class Frontier(NamedTuple):
    """The calibrations of which none is better at both ends, from the most accurate at the first radius on."""

    radii: tuple[float, ...]
    between: tuple[float, float]  # the radii that are traded
    points: tuple[Point, ...]
    alone: dict[str, tuple[float, ...]]  # accuracy of each network as constant noise, by sigma or by other noise
    others: tuple[tuple[float, float], ...]  # accuracy at both ends of a coarse grid of thresholds

    def plain(self) -> dict[str, Any]:
        """As a file has it, and as `report.draw_frontier` takes it."""
        return {**self._asdict(), "points": [point._asdict() for point in self.points]}


def frontier(estimate: Estimate, radii: Sequence[float], *, points: int = POINTS, watch: Watch = silent) -> Frontier:
    """For weights w from 0 to 1: the largest (1 - w) A(first) / E(first) + w A(far) / E(far), then the mean A."""
    radii = tuple(sorted(radii))
    alone = estimate.alone(radii)
    envelope = alone.max(axis=0)
    reached = np.flatnonzero(envelope)
    if len(reached) < 2:
        raise RunError(
            "the networks certify held-out images at fewer than two of the radii, so nothing is traded; give smaller "
            "radii"
        )
    far, found = int(reached[-1]), list[Point]()
    for done, weight in enumerate(np.linspace(0, 1, points).tolist()):
        watch(done, points)

        def worth(confidence: tuple[float, ...], weight: float = weight) -> tuple[float, float]:
            accuracy = estimate.accuracy(confidence, radii)
            share = accuracy[[0, far]] / envelope[[0, far]]
            return float((1 - weight) * share[0] + weight * share[1]), float(accuracy.mean())

        best = best_confidence(worth, len(estimate.rule.levels))
        found.append(Point(weight, best, tuple(estimate.accuracy(best, radii).tolist())))
    watch(points, points)
    between = radii[0], radii[far]
    grid = first_confidences(len(estimate.rule.levels))
    others = {tuple(estimate.accuracy(confidence, between).tolist()) for confidence in grid}
    rules = [*estimate.rule.levels, estimate.rule.last]
    by_noise = {_named(rule): tuple(row.tolist()) for rule, row in zip(rules, alone, strict=True)}
    return Frontier(radii, between, _undominated(found, far), by_noise, tuple(sorted(others)))


def write_frontier(path: Path, found: Frontier) -> None:
    """Keep a frontier as JSON."""
    with written_whole(path) as draft:
        draft.write_text(json.dumps(found.plain(), indent=1) + "\n")


def _undominated(points: Sequence[Point], far: int) -> tuple[Point, ...]:
    """Those that no other is better than at one end without being worse at the other; one of those that are alike."""
    ends = {(point.accuracy[0], point.accuracy[far]): point for point in points}
    best = [one for one in ends if not any(other != one and np.all(np.array(other) >= one) for other in ends)]
    return tuple(ends[one] for one in sorted(best, reverse=True))


def _named(rule: Rule) -> str:
    """The sigma of Gaussian noise; of another noise its name too, since two may have the same level."""
    said = rule.describe()
    if said.get("noise") == Gaussian.name:
        return f"{rule.largest_noise:g}"
    return noise_in_words(said) or str(said["scheme"])
