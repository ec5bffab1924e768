"""Train a denoiser: from a data set to a checkpoint.

# x clean pixels; sigma drawn anew for each image; D the denoiser, F a classifier that stays as it is

    |D(x + sigma eps, sigma) - x|^2, a mean over pixels, + weight * cross-entropy(F(D(x + sigma eps, sigma)), F(x))

The second term ("stability") asks that the classifier sees in a denoised image what it sees in the clean one; no
labels are needed. Source: Salman et al. (2020), "Denoised Smoothing: A Provable Defense for Pretrained
Classifiers", Sec. 3; there sigma is one number, here a range is covered by one network.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Denoiser, Description
from sigmax.train.loop import VALIDATION, seeded
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.network import images, told_of, train_network
from sigmax.train.noisy import noisy_copies, uniform
from sigmax.train.progress import OnEpoch, OnStep
from sigmax.train.quick_check import IMAGES, refuse_other_kind, split
from sigmax.train.settings import Settings

DENOISING = Settings(  # suits the digits with a small network: about a minute on one CPU core
    epochs=60, batch=64, optimiser="adamw", lr=2e-3, weight_decay=0.01, schedule="one-cycle", clip=1.0, ema=0.99
)
_TOGETHER = 256  # images checked at a time


@dataclass(frozen=True)
class Denoising(Method):
    """The loss above, with sigma uniform between `low` and `high`.

    Right, for display, is the share of the noise's energy that was removed.
    """

    name: ClassVar[str] = "denoising"
    low: float  # noise in pixels
    high: float
    weight: float = 0.0  # of the classifier's loss
    classifier: nn.Module | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise RequestError(f"a denoiser's noise is 0 < low <= high, finite; got {self.low!r} to {self.high!r}")
        if not 0 <= self.weight < math.inf:
            raise RequestError(f"the weight of the classifier's loss must be at least 0, got {self.weight!r}")
        if (self.weight > 0) != (self.classifier is not None):
            raise RequestError(
                f"the classifier's loss needs both a classifier and a weight above 0; got weight {self.weight:g} "
                f"and {'no' if self.classifier is None else 'a'} classifier"
            )
        if self.classifier is not None:
            fixed = copy.deepcopy(self.classifier).eval().requires_grad_(False)
            object.__setattr__(self, "classifier", fixed)

    def plan(self) -> dict[str, Any]:
        """The classifier is told by its fingerprint: what it computes counts, not where it lay."""
        told = {"name": self.name, "low": self.low, "high": self.high, "weight": self.weight}
        return {**told, "classifier": self.classifier and models.fingerprint(self.classifier)}

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of one noisy copy of each image."""
        clean = batch.pixels
        sigma = self.low + (self.high - self.low) * uniform(clean, batch.generator)
        noisy = noisy_copies(clean, sigma, 1, batch.generator)
        denoised = model(noisy, sigma)
        loss = functional.mse_loss(denoised, clean)
        removed = 1 - loss.detach() / functional.mse_loss(noisy, clean)
        if self.classifier is not None:
            loss = loss + self.weight * self.misread(denoised, clean)
        return Score(loss, removed)

    def misread(self, denoised: Tensor, clean: Tensor) -> Tensor:
        """Cross-entropy of the classifier's answers for denoised images, with those for the clean ones."""
        assert self.classifier is not None
        self.classifier.to(clean.device)  # where it already is, but for the first time
        with torch.no_grad():
            seen = self.classifier(clean).argmax(dim=1)
        return functional.cross_entropy(self.classifier(denoised.clamp(0, 1)), seen)


@dataclass(frozen=True)
class NoiseCheck:
    """Called after each epoch: how close denoised images come to clean ones that are not trained on.

    The mapping it returns: `sigmas`, the ends of the range and its middle, and `psnr`, in decibel, at each.
    """

    pixels: Tensor  # (n, C, H, W), on the device of the model
    sigmas: tuple[float, ...]
    seed: int

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, Any]:
        """What was found after the epoch, counted from 0."""
        with seeded(self.seed, epoch + 1, VALIDATION, device=self.pixels.device) as generator:
            errors = [self._error(model, sigma, generator) for sigma in self.sigmas]
        psnr = [-10 * math.log10(max(error, 1e-12)) for error in errors]
        return {"images": len(self.pixels), "sigmas": list(self.sigmas), "psnr": psnr}

    def _error(self, model: nn.Module, sigma: float, generator: torch.Generator) -> float:
        total = 0.0
        for first in range(0, len(self.pixels), _TOGETHER):
            clean = self.pixels[first : first + _TOGETHER]
            denoised = model(noisy_copies(clean, sigma, 1, generator), sigma).clamp(0, 1)
            total += float(((denoised - clean) ** 2).sum())
        return total / self.pixels.numel()


def train_denoiser(
    dataset: Dataset,
    *,
    sigmas: tuple[float, float],
    out: str | Path,
    architecture: str = "unet",
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    classifier: nn.Module | None = None,
    weight: float = 0.0,
    start: Denoiser | None = None,
    validation: float | Dataset = 0.0,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Train a denoiser for noise between `sigmas`, in pixels, and return the checkpoint's path, `out`.

    A run is checked, goes on, ends and is kept apart from others as `train_classifier` says; labels are not used.
    classifier, weight: add the classifier's loss. start: a denoiser whose weights to begin with, which also decides
    architecture and options. validation: a share of the images to hold out, or images of another split; the
    metrics' `validation` says after every epoch how near (some of) them are denoised.
    """
    settings = settings or DENOISING
    low, high = (float(sigma) for sigma in sigmas)
    method = Denoising(low, high, weight=float(weight), classifier=classifier)
    _check_classifier(classifier, dataset)
    taught, held, kept_out = _divided(dataset, validation, settings.seed)
    if start is not None:
        architecture, options = start.description.architecture, start.description.options
        _check_start(start, dataset)

    def examples(device: torch.device) -> Examples:
        return Examples(images(taught, device), torch.tensor(taught.labels, device=device))

    watched = None if held is None else images(held, settings.torch_device())
    return train_network(
        Description(
            architecture=architecture, options=options or {}, classes=0, input_shape=dataset.shape, sigma=None
        ),
        method,
        examples,
        settings,
        out=Path(out),
        made_from={
            "data": told_of(dataset),
            **kept_out,
            **({"start": models.fingerprint(start)} if start is not None else {}),
        },
        notes={"sigmas": [low, high]},
        start=start,
        validate=None if watched is None else NoiseCheck(watched, (low, (low + high) / 2, high), settings.seed),
        on_epoch=on_epoch,
        on_step=on_step,
    )


def _divided(
    dataset: Dataset, validation: float | Dataset, seed: int
) -> tuple[Dataset, Dataset | None, dict[str, Any]]:
    """The images to train on, those to check on if any, and what a plan says of them: looking changes nothing."""
    if isinstance(validation, Dataset):
        refuse_other_kind(validation, dataset)
        return dataset, validation.take(np.arange(min(IMAGES, len(validation)))), {}
    if validation == 0:
        return dataset, None, {}
    held, taught = split(len(dataset), validation, seed)
    return dataset.take(taught), dataset.take(held[:IMAGES]), {"validation": float(validation)}


def _check_start(start: Denoiser, dataset: Dataset) -> None:
    if start.description.input_shape != dataset.shape:
        raise RequestError(
            f"the denoiser to begin with is for images of shape {start.description.input_shape}, and these are "
            f"{dataset.shape}; begin with another, or with none"
        )


def _check_classifier(classifier: nn.Module | None, dataset: Dataset) -> None:
    told = models.describe(classifier)
    if told is not None and (told.denoises or told.input_shape != dataset.shape):
        raise RequestError(
            f"the classifier is {told.architecture!r} for images of shape {told.input_shape} and {told.classes} "
            f"classes; for these images, {dataset.shape}, another is needed"
        )
