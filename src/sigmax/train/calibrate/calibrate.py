"""From a cascade and held-out images to the thresholds of its levels: estimated, searched for, kept in a file."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models.selective import selective
from sigmax.progress import Watch, shown
from sigmax.request import refuse_other
from sigmax.rules.cascade.parts import LAST, level_name
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.calibrate.answers import kept_answers, network_of
from sigmax.train.calibrate.estimate import Estimate
from sigmax.train.calibrate.options import CalibrateOptions

STEPS = (1.0, 0.5, 0.25, 0.125)  # by which log(c / (1 - c)) is moved, from coarse to fine
FURTHEST = 6.0  # of log(c / (1 - c)): no threshold of any use is beyond
GRID = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0)  # of log(c / (1 - c)): where the search looks first
MOST = 2000  # places it looks at first; with more levels those of one threshold for all

Worth = Callable[[tuple[float, ...]], tuple[float, float]]  # of confidences; the more the better
Place = tuple[float, ...]  # log(c / (1 - c)) of each level


class Calibrated(NamedTuple):
    """Confidence thresholds of the levels, in their order, and what is estimated of them at each radius, in %."""

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]  # of the cascade
    envelope: tuple[float, ...]  # of the best of its networks alone

    @property
    def ratio(self) -> tuple[float | None, ...]:
        """Accuracy by envelope; None where no network alone certifies anything."""
        pairs = zip(self.accuracy, self.envelope, strict=True)
        return tuple(accuracy / best if best else None for accuracy, best in pairs)


def estimated(
    cascade: Cascade,
    held_out: Dataset,
    *,
    samples: int,
    n: int,
    alpha: float,
    seed: int = 0,
    answers: str | Path | None = None,
    watch: Watch | None = None,
) -> Estimate:
    """What a cascade over a `Smoothed` or deterministic last would certify for any thresholds of its levels.

    `samples`: noisy copies of each image; `n`, `alpha`: of the certificates to come; `seed`: of the noise here.
    `answers`: a folder that keeps what the networks answer, so that they are not asked again; answers there of another
    request are refused. `watch(done, total)` counts networks; without it a terminal or a notebook shows a bar.
    """
    rule, last = cascade.rule, cascade.last
    assert isinstance(rule, CascadeRule)
    if not isinstance(last, Smoothed) and last.rule.is_random:
        raise RequestError(
            f"calibration needs a cascade whose last is Smoothed or deterministic; got {type(last).__name__}"
        )
    labels = held_out.needed_labels("calibration")
    parts = {**{level_name(j): level for j, level in enumerate(cascade.levels)}, LAST: last}
    found = []
    with shown(watch, "calibrate") as advance:
        for done, (name, part) in enumerate(parts.items()):
            advance(done, len(parts))
            file = None if answers is None else Path(answers) / f"{name}.npz"
            found.append(kept_answers(file, part, held_out, samples=samples, seed=seed))
        advance(len(parts), len(parts))
    return Estimate(rule, tuple(found), labels, n=n, alpha=alpha)


def chosen(estimate: Estimate, options: CalibrateOptions) -> Calibrated:
    """The thresholds that are best for what is asked, by the estimate."""
    envelope = estimate.envelope(options.radii)

    def worth(confidence: tuple[float, ...]) -> tuple[float, float]:
        return options.worth(estimate.accuracy(confidence, options.radii), envelope)

    best = best_confidence(worth, len(estimate.rule.levels))
    return Calibrated(best, tuple(estimate.accuracy(best, options.radii).tolist()), tuple(envelope.tolist()))


def with_confidence(cascade: Cascade, confidence: Sequence[float]) -> Cascade:
    """The cascade with other confidence thresholds: one for each level, in their order."""
    levels = []
    for level, threshold in zip(cascade.levels, confidence, strict=True):
        voter = level.voters["base"]
        how: dict[str, Any] = {name: getattr(voter, name) for name in ("device", "dtype", "batch", "compile")}
        model = selective(network_of(level), confidence=threshold)
        levels.append(Smoothed(model, noise=level.noise, classes=level.classes, domain=level.domain, **how))
    return Cascade(levels, cascade.last, thresholds=cascade.thresholds)


def best_confidence(worth: Worth, levels: int) -> tuple[float, ...]:
    """Confidences that no neighbour is better than, by the smallest step."""

    def best(places: Iterable[Place]) -> tuple[tuple[float, float], Place]:
        return max((worth(_confidence(place)), place) for place in places)

    found, here = best(_first_places(levels))
    for step in STEPS:
        moves = list(itertools.product((-step, 0.0, step), repeat=levels))
        while True:
            around = {tuple(map(sum, zip(here, move, strict=True))) for move in moves} - {here}
            better, then = best(sorted(at for at in around if max(map(abs, at)) <= FURTHEST))
            if better <= found:
                break
            found, here = better, then
    return _confidence(here)


def first_confidences(levels: int) -> list[tuple[float, ...]]:
    """The coarse grid that the search looks at first."""
    return [_confidence(place) for place in _first_places(levels)]


def _first_places(levels: int) -> Iterable[Place]:
    few = len(GRID) ** levels <= MOST
    return itertools.product(GRID, repeat=levels) if few else ((at,) * levels for at in GRID)


def _confidence(place: Place) -> tuple[float, ...]:
    return tuple(1 / (1 + math.exp(-at)) for at in place)


def write_thresholds(path: Path, found: Calibrated, request: Mapping[str, Any]) -> None:
    """Keep the thresholds with what they were chosen for and the accuracies they are estimated to have."""
    with written_whole(path) as draft:
        kept = {**found._asdict(), "ratio": found.ratio, "request": request}
        draft.write_text(json.dumps(kept, indent=1) + "\n")


def read_thresholds(path: Path, request: Mapping[str, Any] | None = None) -> Calibrated:
    """The thresholds in a file; those of another request than `request` are refused with what differs."""
    try:
        kept = json.loads(path.read_text())
        found = Calibrated(*(tuple(map(float, kept[name])) for name in Calibrated._fields))
        there = dict(kept["request"])
    except OSError as error:
        raise RequestError(f"the thresholds {path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to calibrate again") from error
    if request is not None:
        what = f"{path} holds the thresholds of another request"
        refuse_other(there, json.loads(json.dumps(request)), what, "Delete it to calibrate again")
    return found
