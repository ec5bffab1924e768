"""Train a router: from labels, how far each expert certifies each input, to a checkpoint.

A router is a classifier whose classes are the experts, to be smoothed with a noise of its own (the variance
estimator of Dual randomized smoothing). It is trained as `router_loss` or `router_objective` says, and watched as
`router_check` says.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Classifier, Description, Normalisation
from sigmax.train.labels import Labels
from sigmax.train.method import Examples
from sigmax.train.network import images, told_of, told_of_denoiser, train_network
from sigmax.train.progress import OnEpoch, OnStep
from sigmax.train.router_check import INPUTS, OnWarning, Watcher
from sigmax.train.router_loss import shares_of
from sigmax.train.router_options import LossOptions, advice, make_loss
from sigmax.train.router_presets import SMALL
from sigmax.train.settings import Settings

HELD_OUT = 2  # with the seed: which inputs are held out

Indices = NDArray[np.int64]


def train_router(
    dataset: Dataset,
    labels: Labels,
    *,
    architecture: str,
    sigma: float,
    out: str | Path,
    options: Mapping[str, Any] | None = None,
    normalisation: str | Normalisation | None = None,
    denoiser: nn.Module | None = None,
    start: Classifier | None = None,
    settings: Settings | None = None,
    held_out: float = 0.1,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
    on_warning: OnWarning | None = None,
    **loss: Unpack[LossOptions],
) -> Path:
    """Train a router of noise `sigma`, in pixels, on the labelled inputs and return the checkpoint's path, `out`.

    What is wrong with the request is said before anything is trained; a run goes on, ends and is kept apart from
    others as `train_classifier` says. Inputs that no expert certifies are dropped. Of the others a share,
    `held_out`, is never trained on: after every epoch the metrics' `validation` says how the smoothed router does
    on (some of) them. `on_warning` is told of what will not end well, above all of a route that dies.

    `denoiser`: takes the noise off the images before the router sees them, as `train_classifier` says. `start`: a
    classifier whose weights to begin with, its last layer aside, such as an expert's; it also decides architecture,
    options and normalisation.

    `dataset` is the whole set that the labels were made of. `loss`: the objective, "paper" (as `router_loss` says),
    "certified" or "weighted" (`router_objective`), with its hyper-parameters, such as `sharpness=8.0`; those of the
    paper come from `router_preset`.
    """
    sigma, settings = float(sigma), settings or SMALL.settings
    if len(labels.experts) < 2:
        raise RequestError("a router chooses among experts, and these are the labels of one; label with more")
    kept = labels.select(dataset)
    # Rounded once, here: the loss, its weights and the metrics must agree on which expert is best.
    radii = labels.radii[labels.kept].astype(np.float32)
    held, taught = split(len(kept), held_out, settings.seed)
    method = make_loss(sigma, radii[taught], loss)
    watched = held[:INPUTS]
    watcher = Watcher(
        pixels=images(kept.take(watched), settings.torch_device()),
        radii=radii[watched].astype(np.float64),
        shares=shares_of(radii),
        sigma=sigma,
        seed=settings.seed,
        epochs=settings.epochs,
        routes=route_names(labels.sigmas),
        advice=advice(method),
        on_warning=on_warning,
    )

    def examples(device: torch.device) -> Examples:
        return Examples(images(kept.take(taught), device), torch.from_numpy(radii[taught]).to(device))

    experts = {
        "experts": labels.experts,
        "sigmas": [None if math.isnan(noise) else noise for noise in labels.sigmas],
        "fingerprint": labels.fingerprint,
    }
    described = Description(
        architecture=architecture,
        options=options or {},
        classes=len(labels.experts),
        input_shape=dataset.shape,
        normalisation=models.normalisation(normalisation),
        sigma=sigma,
    )
    _warn_of_noise(sigma, labels.sigmas, on_warning)
    return train_network(
        described if start is None else _like(start, described),
        method,
        examples,
        settings,
        out=Path(out),
        made_from={
            "data": told_of(dataset),
            "labels": experts,
            "held_out": held_out,
            **told_of_denoiser(denoiser),
            **({} if start is None else {"start": models.fingerprint(start)}),
        },
        start=start,
        behind=denoiser,
        notes={"router": {**experts, "shares": labels.shares.tolist(), "dropped": labels.dropped}},
        validate=watcher,
        on_epoch=on_epoch,
        on_step=on_step,
        on_resume=watcher.remember,
    )


def _like(start: Classifier, asked: Description) -> Description:
    """The description of the classifier to begin with, for other classes; refused if it is for other images."""
    there = start.description
    if there.input_shape != asked.input_shape:
        raise RequestError(
            f"the classifier to begin with is for images {there.input_shape}, and the data has "
            f"{asked.input_shape}; begin with another, or with none"
        )
    return replace(there, classes=asked.classes, sigma=asked.sigma, notes={})


def split(count: int, held_out: float, seed: int) -> tuple[Indices, Indices]:
    """Which of `count` inputs are held out, in random order, and which are trained on; the same everywhere."""
    if not 0 < held_out < 1:
        raise RequestError(f"held_out must lie between 0 and 1, got {held_out!r}; 0.1 holds out a tenth")
    aside = round(held_out * count)
    if not 0 < aside < count:
        raise RequestError(
            f"held_out={held_out:g} of {count} inputs leaves {aside} to check on and {count - aside} to train on, "
            "and both need some; choose another share, or label more inputs"
        )
    order = np.argsort(np.random.SFC64([seed, HELD_OUT]).random_raw(count), kind="stable").astype(np.int64)
    return order[:aside], np.sort(order[aside:])


def route_names(sigmas: tuple[float, ...]) -> list[str]:
    """What to call the routes: by the experts' noise, or by their place where one has none."""
    return [f"expert {i}" if math.isnan(sigma) else f"sigma {sigma:g}" for i, sigma in enumerate(sigmas)]


def _warn_of_noise(sigma: float, sigmas: tuple[float, ...], on_warning: OnWarning | None) -> None:
    largest = max((noise for noise in sigmas if not math.isnan(noise)), default=0.0)
    if sigma < largest and on_warning is not None:
        on_warning(
            f"the router's sigma {sigma:g} is below the largest expert's, {largest:g}: with as many votes a route "
            f"cannot be certified as far as that expert certifies; use sigma {largest:g} or more"
        )
