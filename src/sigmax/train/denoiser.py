"""Train a denoiser: from a data set to a checkpoint.

# x clean pixels; sigma sampled again for each image; D the denoiser, F a classifier that stays as it is

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
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax import models
from sigmax.config.validation import Positive, Weight, about, options
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Denoiser
from sigmax.train.loop.fit import VALIDATION, Watching, seeded
from sigmax.train.loop.held_out import divided, first
from sigmax.train.loop.network import described, examples_of, sources_of, train_network
from sigmax.train.loop.noisy import noisy_copies, uniform
from sigmax.train.loop.quick_check import IMAGES
from sigmax.train.loop.settings import Settings
from sigmax.train.loop.stored import in_unit, on_device
from sigmax.train.methods.base import Batch, Method, Score

DENOISING = Settings(  # suits the digits with a small network: about a minute on one CPU core
    epochs=60, batch=64, optimiser="adamw", lr=2e-3, weight_decay=0.01, schedule="one-cycle", clip=1.0, ema=0.99
)
_TOGETHER = 256  # images checked at a time


@options
class Denoising(Method):
    """The loss above, sigma uniform from `low` to `high`; right is the share of the noise's energy removed."""

    name: ClassVar[str] = "denoising"
    low: Annotated[Positive, about("least noise, in pixels")]
    high: Annotated[Positive, about("largest noise, in pixels")]
    weight: Annotated[Weight, about("of the classifier's loss")] = 0.0
    classifier: nn.Module | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise RequestError(f"low: expected at most high={self.high:g}, got {self.low:g}")
        if (self.weight > 0) != (self.classifier is not None):
            raise RequestError(
                f"the classifier's loss needs both a classifier and a weight above 0; got weight {self.weight:g} "
                f"and {'no' if self.classifier is None else 'a'} classifier"
            )
        if self.classifier is not None:
            fixed = copy.deepcopy(self.classifier).eval().requires_grad_(False)
            object.__setattr__(self, "classifier", fixed)

    def plan(self) -> dict[str, Any]:
        """The classifier stands there by its fingerprint: what it computes counts, not where it lies."""
        own = {"name": self.name, "low": self.low, "high": self.high, "weight": self.weight}
        return {**own, "classifier": self.classifier and models.fingerprint(self.classifier)}

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
    """Called after each epoch: `psnr` (dB) of denoised images not trained on, at the range's ends and middle."""

    pixels: Tensor  # (n, C, H, W), on the device of the model, uint8 or float32 in [0, 1]
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
        for clean in map(in_unit, torch.split(self.pixels, _TOGETHER)):
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
    **watching: Unpack[Watching],
) -> Path:
    """Train a denoiser for noise between `sigmas`, in pixels, and return the checkpoint's path, `out`.

    As `train_classifier`, without labels; `validation` says how near (some of) the images are denoised.
    classifier, weight: add the classifier's loss. start: a denoiser whose weights to begin with.
    """
    settings = settings or DENOISING
    low, high = (float(sigma) for sigma in sigmas)
    method = Denoising(low, high, weight=float(weight), classifier=classifier)
    known = models.describe(classifier)
    if known is not None and (known.denoises or known.input_shape != dataset.shape):
        raise RequestError(
            f"the classifier is {known.architecture!r} for images of shape {known.input_shape} and {known.classes} "
            f"classes; for these images, {dataset.shape}, another is needed"
        )
    division = divided(dataset, validation, settings.seed)
    check = None
    if division.held_out is not None:
        watched = on_device(first(division.held_out, IMAGES), settings.torch_device())
        check = NoiseCheck(watched, (low, (low + high) / 2, high), settings.seed)
    return train_network(
        described(dataset, start, architecture=architecture, options=options, classes=0, sigma=None),
        method,
        examples_of(division.training, np.zeros(len(division.training), np.int64)),
        settings,
        out=Path(out),
        sources={**sources_of(dataset, start=start), **division.plan},
        notes={"sigmas": [low, high]},
        start=start,
        validate=check,
        **watching,
    )
