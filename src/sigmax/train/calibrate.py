"""Calibrate a cascade: the confidence thresholds of its levels, chosen on images that nobody was trained on.

# level j answers on a noisy copy where its softmax confidence is at least c_j, else it defers
# A(r) certified accuracy at radius r in %; P(r) a published accuracy there

A threshold trades accuracy at small radii for large ones, and trains nothing. All of them are chosen together, for
the largest least lead min_r (A(r) - P(r)) over a row of published accuracies, or for the largest mean of A.
A(r) is a plug-in estimate from d samples, far fewer than the n of a certificate. k of d votes say little of a
probability near 1, where large radii are decided: d of d would be n of n if k / d were taken. So each image gets a
probability that k of d leaves possible, Beta(k + 1/10, d - k + 1/10) at a random place of its own, and that
probability is put to the bounds of n samples. It only chooses: every certificate rests on its own votes.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from scipy.special import betaincinv

from sigmax import bounds, radius
from sigmax.config.validation import Count, Options, Weight, about
from sigmax.data import Dataset
from sigmax.engine.voter import voting
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models.selective import Selective, selective
from sigmax.progress import Watch, shown
from sigmax.request import refuse_other
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.loop.quick_check import noisy_answers
from sigmax.train.loop.stored import on_device

PRIOR = 0.1  # votes for and against that every probability begins with: most are near 0 or 1
STEPS = (1.0, 0.5, 0.25, 0.125)  # by which log(c / (1 - c)) is moved, from coarse to fine
FURTHEST = 6.0  # of log(c / (1 - c)): no threshold of any use is beyond
FIRST = 0.5  # the confidence threshold that the search begins with

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CalibrateOptions(Options):
    """What the confidence thresholds of a cascade are chosen for."""

    objective: Annotated[
        Literal["least-lead", "mean"],
        about("`least-lead` over the `published` accuracies, or the `mean` accuracy over the radii"),
    ] = "mean"
    published: Annotated[tuple[float, ...], about("certified accuracy in % to be above, at each of the radii")] = ()
    radii: Annotated[tuple[Weight, ...], about("radii at which certified accuracy counts")] = tuple(
        0.25 * i for i in range(11)
    )
    samples: Annotated[Count, about("noisy copies of each held-out image, for every network")] = 512

    @model_validator(mode="after")
    def _fits(self) -> "CalibrateOptions":
        if not self.radii:
            raise RequestError("radii must name at least one radius")
        if self.objective == "mean" and self.published:
            raise RequestError("published accuracies are for objective = 'least-lead'; leave them out, or set it")
        if self.objective == "least-lead" and len(self.published) != len(self.radii):
            raise RequestError(
                f"published must hold one accuracy for each of the {len(self.radii)} radii; got {len(self.published)}"
            )
        return self

    def worth(self, accuracy: Floats) -> tuple[float, float]:
        """How good accuracies are; what comes second decides between equals."""
        if self.objective == "mean":
            return float(accuracy.mean()), float(accuracy.min())
        leads = accuracy - np.asarray(self.published)
        return float(leads.min()), float(leads.mean())


class Answers(NamedTuple):
    """What a network answers to noisy copies of each image, (images, samples)."""

    top: Ints  # the class with the largest logit
    confidence: NDArray[np.float32]  # its softmax

    def counts(self, classes: int, confidence: float = 0.0) -> Ints:
        """(images, classes) how often each class is answered with at least this confidence."""
        answered = np.where(self.confidence >= confidence, self.top, classes)
        found: Ints = (answered[:, :, None] == np.arange(classes)).sum(axis=1)
        return found


class Calibrated(NamedTuple):
    """Confidence thresholds of the levels, in their order, and the accuracies in % that they are estimated to have."""

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


def calibrate(
    cascade: Cascade,
    held_out: Dataset,
    options: CalibrateOptions,
    *,
    n: int,
    alpha: float,
    seed: int = 0,
    watch: Watch | None = None,
) -> Calibrated:
    """Choose confidence thresholds for the levels of a cascade over a `Smoothed` or deterministic last, left as it is.

    `n`, `alpha`: of the certificates to come; `seed`: of the noise here. `watch(done, total)` counts networks;
    without it a terminal or a notebook shows a bar.
    """
    rule, last = cascade.rule, cascade.last
    assert isinstance(rule, CascadeRule)
    if not isinstance(last, Smoothed) and last.rule.is_random:
        raise RequestError(
            f"calibration needs a cascade whose last is Smoothed or deterministic; got {type(last).__name__}"
        )
    labels = held_out.needed_labels("calibration")
    parts, found = [*cascade.levels, *([last] if isinstance(last, Smoothed) else [])], list[Answers]()
    known = {} if isinstance(last, Smoothed) else {"last": _certain(last, held_out, labels)}
    with shown(watch, "calibrate") as advance:
        for done, part in enumerate(parts):
            advance(done, len(parts))
            found.append(answers_of(part, held_out, samples=options.samples, seed=seed))
        estimate = Estimate(rule, tuple(found), labels, n=n, alpha=alpha, _known=known)
        best = _climb(lambda c: options.worth(estimate.accuracy(c, options.radii)), len(rule.levels))
        advance(len(parts), len(parts))
    return Calibrated(best, tuple(estimate.accuracy(best, options.radii).tolist()))


def with_confidence(cascade: Cascade, confidence: Sequence[float]) -> Cascade:
    """The cascade with other confidence thresholds: one for each level, in their order."""
    levels = []
    for level, threshold in zip(cascade.levels, confidence, strict=True):
        voter = level.voters["base"]
        how: dict[str, Any] = {name: getattr(voter, name) for name in ("device", "dtype", "batch", "compile")}
        model = selective(network_of(level), confidence=threshold)
        levels.append(Smoothed(model, noise=level.noise, classes=level.classes, domain=level.domain, **how))
    return Cascade(levels, cascade.last, thresholds=cascade.thresholds)


def network_of(level: Smoothed) -> Any:
    """The model that a level's confidence is taken from."""
    model = level.voters["base"].model
    return model.model if isinstance(model, Selective) else model


def answers_of(part: Smoothed, images: Dataset, *, samples: int, seed: int) -> Answers:
    """What the network of a level answers to noisy copies of the images, in the arithmetic in which it votes."""
    voter, network = part.voters["base"], network_of(part)
    pixels = on_device(images, voter.device)
    generator = torch.Generator(voter.device).manual_seed(seed)
    found = []
    with voting([voter]), _arithmetic(voter.device, voter.dtype):
        how: dict[str, Any] = {"samples": samples, "generator": generator, "noise": part.noise.name}
        for _, logits in noisy_answers(network, pixels, part.sigma, **how):
            largest = logits.float().softmax(dim=1).max(dim=1)
            found.append((largest.indices.cpu(), largest.values.cpu()))
    top, confidence = (torch.cat(columns).view(len(images), samples).numpy() for columns in zip(*found, strict=True))
    return Answers(top, confidence)


def _certain(last: Scheme, images: Dataset, labels: Ints) -> list[float]:
    """How far a deterministic last certifies the true class of each image: no estimate, it is just done."""
    found = last.certify(images.pixels(range(len(images))))
    return [c.radius if c.predicted == label else 0.0 for c, label in zip(found, labels.tolist(), strict=True)]


@dataclass(frozen=True)
class Estimate:
    """How far a cascade would certify the true class of each image, about, for any confidence thresholds."""

    rule: CascadeRule
    answers: tuple[Answers, ...]  # of the levels, then of the last
    labels: Ints
    n: int = field(kw_only=True)
    alpha: float = field(kw_only=True)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)  # the search asks again and again

    def accuracy(self, confidence: Sequence[float], radii: Sequence[float]) -> Floats:
        """Certified accuracy in % at each of the radii."""
        reached = self.radii(confidence)[:, None]
        found: Floats = 100 * ((reached >= np.asarray(radii)) & (reached > 0)).mean(axis=0)
        return found

    def radii(self, confidence: Sequence[float]) -> Floats:
        """Of each image: what `radius.cascade` makes of the bounds that the levels would have."""
        levels = [self._level(j, c) for j, c in enumerate(confidence)]
        last = self._last()
        found = [
            radius.cascade([level[i] for level in levels], last[i]) if levels else last[i] for i in range(len(last))
        ]
        return np.asarray(found)

    def _level(self, j: int, confidence: float) -> list[radius.LevelBounds]:
        """Bounds of a level, by image: half of its alpha is for the true class, half for its rivals."""
        if (j, confidence) not in self._known:
            level, share = self.rule.level(j), self.rule.alpha_split(self.alpha)[j] / 2
            own, rivals = self._votes(j, confidence)
            lower = bounds.lower(self._of_n(own, j, 0), self.n, share)
            upper = bounds.upper(self._of_n(rivals, j, 1), self.n, share)
            self._known[j, confidence] = [
                radius.LevelBounds(level.rule.noise, float(low), float(high), level.threshold)
                for low, high in zip(lower, upper, strict=True)
            ]
        known: list[radius.LevelBounds] = self._known[j, confidence]
        return known

    def _last(self) -> list[float]:
        """How far the last would certify each image."""
        if "last" not in self._known:
            last, place = self.rule.last, len(self.rule.levels)
            assert isinstance(last, SmoothedRule)
            share = self.rule.alpha_split(self.alpha)[-1] / (1 if last.bound == "one-sided" else 2)
            own, rivals = self._votes(place, 0.0)
            lower = bounds.lower(self._of_n(own, place, 0), self.n, share)
            upper: Sequence[float | None] = [None] * len(lower)
            if last.bound == "runner-up":
                upper = bounds.upper(self._of_n(rivals, place, 0, rival=True), self.n, share).tolist()
            self._known["last"] = [
                radius.smoothed(last.noise, float(low), high) if leads else 0.0
                for low, high, leads in zip(lower, upper, own > rivals, strict=True)
            ]
        known: list[float] = self._known["last"]
        return known

    def _votes(self, place: int, confidence: float) -> tuple[Ints, Ints]:
        """Votes for the true class of each image, and for the rival with the most."""
        counts, every = self.answers[place].counts(self.rule.classes, confidence), np.arange(len(self.labels))
        own = counts[every, self.labels]
        counts[every, self.labels] = 0
        return own, counts.max(axis=1)

    def _of_n(self, votes: Ints, network: int, of: int, *, rival: bool = False) -> Ints:
        """What `votes` of d may become of n; networks are lucky on different images.

        `rival`: of a rival's votes at the place of the true class's, so that of two classes they are one.
        """
        samples = self.answers[network].top.shape[1]
        place = np.random.SFC64([network, of]).random_raw(len(votes)).astype(np.float64) / 2**64
        place = np.clip(1 - place if rival else place, 1e-3, 1 - 1e-3)
        share = betaincinv(votes + PRIOR, samples - votes + PRIOR, place)
        found: Ints = np.round(share * self.n).astype(np.int64)
        return found


def _climb(worth: Callable[[tuple[float, ...]], tuple[float, float]], levels: int) -> tuple[float, ...]:
    """From the first threshold for all levels to the best of its neighbours, and on, by smaller and smaller steps."""

    def confidence(here: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(1 / (1 + math.exp(-at)) for at in here)

    here = (math.log(FIRST / (1 - FIRST)),) * levels
    best = worth(confidence(here))
    for step in STEPS:
        while True:
            moves = itertools.product((-step, 0.0, step), repeat=levels)
            around = {tuple(map(sum, zip(here, move, strict=True))) for move in moves} - {here}
            inside = sorted(at for at in around if max(map(abs, at)) <= FURTHEST)
            found, then = max((worth(confidence(at)), at) for at in inside)
            if found <= best:
                break
            best, here = found, then
    return confidence(here)


@contextmanager
def _arithmetic(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    if dtype == torch.float32:
        yield
    else:
        with torch.autocast(device.type, dtype):
            yield


def write_thresholds(path: Path, found: Calibrated, request: Mapping[str, Any]) -> None:
    """Keep the thresholds with what they were chosen for and the accuracies they are estimated to have."""
    with written_whole(path) as draft:
        draft.write_text(json.dumps({**found._asdict(), "request": request}, indent=1) + "\n")


def read_thresholds(path: Path, request: Mapping[str, Any] | None = None) -> Calibrated:
    """The thresholds in a file; those of another request than `request` are refused with what differs."""
    try:
        kept = json.loads(path.read_text())
        found = Calibrated(tuple(map(float, kept["confidence"])), tuple(map(float, kept["accuracy"])))
        there = dict(kept["request"])
    except OSError as error:
        raise RequestError(f"the thresholds {path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to calibrate again") from error
    if request is not None:
        what = f"{path} holds the thresholds of another request"
        refuse_other(there, json.loads(json.dumps(request)), what, "Delete it to calibrate again")
    return found
