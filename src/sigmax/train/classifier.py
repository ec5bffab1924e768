"""Train one classifier: from a data set to a checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Classifier, Description, Normalisation
from sigmax.train.data_dependent import DataDependent
from sigmax.train.field_noise import FieldNoise
from sigmax.train.gaussian import Gaussian
from sigmax.train.method import Examples, Method
from sigmax.train.network import images, told_of, told_of_denoiser, train_network
from sigmax.train.progress import OnEpoch, OnStep
from sigmax.train.quick_check import IMAGES, QuickCheck, refuse_other_kind, split
from sigmax.train.settings import Settings


def train_classifier(
    dataset: Dataset,
    *,
    architecture: str = "small-cnn",
    sigma: float,
    out: str | Path,
    options: Mapping[str, Any] | None = None,
    normalisation: str | Normalisation | None = None,
    start: Classifier | None = None,
    denoiser: nn.Module | None = None,
    tune_denoiser: bool = False,
    settings: Settings | None = None,
    method: Callable[[float], Method] = Gaussian,
    validation: float | Dataset = 0.0,
    validate_every: int = 10,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Train the architecture on the data with noise `sigma`, in pixels, and return the checkpoint's path, `out`.

    What is wrong with the request is said before anything is trained. A run that was cut short goes on when
    called again with the same request, and ends with the weights it would have had; a finished one returns at
    once. A file at `out` that another request made is never overwritten. Beside `out` lie its metrics
    (`.metrics.jsonl`, one line an epoch) and, until the end, its state (`.partial`).

    `method(sigma)` makes the training method. `start`: a classifier whose weights to begin with, which also decides
    architecture, options and normalisation. `denoiser`: takes the noise off the images before the classifier sees
    them, and stays as it is; what is written is the classifier alone. `tune_denoiser`: a copy of it is trained by
    the same loss, and written beside `out` (NAME.safetensors) as NAME.denoiser.safetensors (`denoiser_path`).

    `validation`: a share of the images to hold out, or images of another split. Every `validate_every` epochs, and
    after the last, the metrics' `validation` says how the smoothed classifier does on (some of) them, as
    `quick_check` tells it. A share is never trained on, so it makes another run; looking makes none.
    """
    sigma, settings = float(sigma), settings or Settings()
    taught, held, made_from = _divided(dataset, validation, settings.seed)
    if not (type(validate_every) is int and validate_every >= 1):
        raise RequestError(f"validate_every must be a whole number of at least 1, got {validate_every!r}")

    def examples(device: torch.device) -> Examples:
        return Examples(images(taught, device), torch.tensor(taught.labels, device=device))

    description = Description(
        architecture=architecture,
        options=options or {},
        classes=len(dataset.classes),
        input_shape=dataset.shape,
        normalisation=models.normalisation(normalisation),
        sigma=sigma,
    )
    taught_by = method(sigma)
    if denoiser is not None and isinstance(taught_by, DataDependent | FieldNoise):
        raise RequestError("behind a denoiser all images have one noise; train without noise of their own there")
    if start is not None:
        description = _like(start, description)
        made_from["start"] = models.fingerprint(start)
    return train_network(
        description,
        taught_by,
        examples,
        settings,
        out=Path(out),
        made_from={**made_from, **told_of_denoiser(denoiser)},
        notes={"class_names": dataset.classes},
        start=start,
        behind=denoiser,
        tune_behind=tune_denoiser,
        validate=None if held is None else _check(held, sigma, settings, validate_every),
        on_epoch=on_epoch,
        on_step=on_step,
    )


def _like(start: Classifier, asked: Description) -> Description:
    """The description of the classifier to begin with, for the noise asked for; refused if it is for other data."""
    there = start.description
    if (there.classes, there.input_shape) != (asked.classes, asked.input_shape):
        raise RequestError(
            f"the classifier to begin with tells {there.classes} classes of images {there.input_shape} apart, and "
            f"the data has {asked.classes} of {asked.input_shape}; begin with another, or with none"
        )
    return replace(there, sigma=asked.sigma, notes={})


def _divided(
    dataset: Dataset, validation: float | Dataset, seed: int
) -> tuple[Dataset, Dataset | None, dict[str, Any]]:
    """The images to train on, those to check on if any, and what the run is made from."""
    made_from: dict[str, Any] = {"data": told_of(dataset)}
    if isinstance(validation, Dataset):
        refuse_other_kind(validation, dataset)
        return dataset, validation, made_from
    if validation == 0:
        return dataset, None, made_from
    held, taught = split(len(dataset), validation, seed)
    return dataset.take(taught), dataset.take(held), {**made_from, "validation": float(validation)}


def _check(held: Dataset, sigma: float, settings: Settings, every: int) -> QuickCheck:
    seen = held.take(np.arange(min(IMAGES, len(held))))
    return QuickCheck(
        pixels=images(seen, settings.torch_device()),
        labels=seen.labels,
        classes=len(seen.classes),
        sigma=sigma,
        seed=settings.seed,
        epochs=settings.epochs,
        every=every,
    )
