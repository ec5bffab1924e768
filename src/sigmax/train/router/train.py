"""Train a router, a classifier whose classes are the experts: from labels to a checkpoint."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.label.labels import Labels
from sigmax.models import Classifier, Normalisation
from sigmax.train.loop.held_out import split
from sigmax.train.loop.network import described, examples_of, sources_of, train_network
from sigmax.train.loop.noisy import NoiseName, noise_note, refuse_denoiser
from sigmax.train.loop.progress import OnEpoch, OnStep
from sigmax.train.loop.settings import Settings
from sigmax.train.loop.stored import on_device
from sigmax.train.router.check import INPUTS, OnWarning, Watcher, route_names
from sigmax.train.router.loss import shares_of
from sigmax.train.router.options import advice, make_loss
from sigmax.train.router.presets import SMALL


def train_router(
    dataset: Dataset,
    labels: Labels,
    *,
    architecture: str,
    sigma: float,
    noise: NoiseName = "gaussian",
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
    **loss: Any,
) -> Path:
    """Train a router of noise `sigma`, in pixels, on the labelled inputs and return the checkpoint's path, `out`.

    As `train_classifier`; `dataset` is the whole set that was labelled. Of the inputs that some expert certifies a
    share, `held_out`, is only watched, and `on_warning` gets warnings, above all of a route that dies. loss: the
    objective, "paper" (`router.loss`), "certified" or "weighted" (`router.objective`), with its hyper-parameters, such
    as `sharpness=8.0`.
    """
    sigma, settings = float(sigma), settings or SMALL.settings
    kept, radii = _certified(dataset, labels)
    held, training = split(len(kept), held_out, settings.seed, name="held_out")
    refuse_denoiser(denoiser, noise)
    method = make_loss(sigma, radii[training], loss, noise=noise)
    asked: dict[str, Any] = {"sigma": sigma, "noise": noise, "seed": settings.seed, "epochs": settings.epochs}
    watcher = Watcher(
        pixels=on_device(kept.take(held[:INPUTS]), settings.torch_device()),
        radii=radii[held[:INPUTS]].astype(np.float64),
        shares=shares_of(radii),
        routes=route_names(labels.sigmas),
        advice=advice(method),
        on_warning=on_warning,
        **asked,
    )
    _warn_of_noise(sigma, labels.sigmas, on_warning)
    first: dict[str, Any] = {"start": start, "denoiser": denoiser}
    plan, said = _plan_of(labels), {"shares": labels.shares.tolist(), "dropped": labels.dropped}
    network: dict[str, Any] = {"architecture": architecture, "options": options, "normalisation": normalisation}
    return train_network(
        described(dataset, start, classes=len(labels.experts), sigma=sigma, same_classes=False, **network),
        method,
        examples_of(kept.take(training), radii[training]),
        settings,
        out=Path(out),
        sources={**sources_of(dataset, **first), "labels": plan, "held_out": held_out},
        **first,
        notes={**noise_note(noise), "router": {**plan, **said}},
        validate=watcher,
        on_epoch=on_epoch,
        on_step=on_step,
        on_resume=watcher.remember,
    )


def _certified(dataset: Dataset, labels: Labels) -> tuple[Dataset, NDArray[np.float32]]:
    """The labelled inputs that some expert certifies, and how far each expert certifies them, (n, K)."""
    if len(labels.experts) < 2:
        raise RequestError("a router chooses among experts, and these are the labels of one; label with more")
    # Rounded once, here: the loss, its weights and the metrics must agree on which expert is best.
    return labels.select(dataset), labels.radii[labels.kept].astype(np.float32)


def _plan_of(labels: Labels) -> dict[str, Any]:
    noises = [None if math.isnan(level) else level for level in labels.sigmas]
    return {"experts": labels.experts, "sigmas": noises, "fingerprint": labels.fingerprint}


def _warn_of_noise(sigma: float, sigmas: tuple[float, ...], on_warning: OnWarning | None) -> None:
    largest = max((level for level in sigmas if not math.isnan(level)), default=0.0)
    if sigma < largest and on_warning is not None:
        on_warning(
            f"the router's sigma {sigma:g} is below the largest expert's, {largest:g}: with as many votes a route "
            f"cannot be certified as far as that expert certifies; use sigma {largest:g} or more"
        )
