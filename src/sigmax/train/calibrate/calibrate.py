"""From a cascade and held-out images to the thresholds of its levels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models.selective import selective
from sigmax.progress import Watch, shown
from sigmax.rules.cascade.parts import LAST, level_name
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.calibrate.answers import kept_answers, network_of
from sigmax.train.calibrate.estimate import Estimate
from sigmax.train.calibrate.options import CalibrateOptions
from sigmax.train.calibrate.search import best_confidence
from sigmax.train.calibrate.thresholds import Calibrated


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
