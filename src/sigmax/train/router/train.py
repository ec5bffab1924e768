"""Train a router, a classifier whose classes are the experts: from labels to a checkpoint."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.label.labels import Labels
from sigmax.models import Classifier, Normalisation
from sigmax.train.loop.held_out import first, split
from sigmax.train.loop.network import described, examples_of, sources_of, train_network
from sigmax.train.loop.noisy import NoiseName, noise_note, refuse_denoiser
from sigmax.train.loop.progress import OnEpoch, OnStep
from sigmax.train.loop.settings import Settings
from sigmax.train.loop.stored import on_device
from sigmax.train.methods.base import Method
from sigmax.train.router.check import INPUTS, OnWarning, Watcher, route_names
from sigmax.train.router.loss import shares_of
from sigmax.train.router.options import advice, make_loss
from sigmax.train.router.presets import SMALL

Floats = NDArray[np.float32]


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

    Arguments and resuming are as those of `train_classifier`. `dataset` is the whole set that was labelled; inputs that
    no expert certifies are dropped. Of the others a share, `held_out`, is never trained on: after every epoch the
    metrics say how the smoothed router does on (some of) them, and `on_warning` gets warnings, above all of a route
    that dies.
    loss: the objective, "paper" (`router.loss`), "certified" or "weighted" (`router.objective`), with its
    hyper-parameters, such as `sharpness=8.0`; the paper's are in `router_preset`.
    """
    sigma, settings = float(sigma), settings or SMALL.settings
    inputs = _divided(dataset, labels, held_out, settings.seed)
    refuse_denoiser(denoiser, noise)
    method = make_loss(sigma, inputs.training_radii, loss, noise=noise)
    watcher = inputs.watcher(method, sigma, settings, route_names(labels.sigmas), on_warning)
    largest = max((level for level in labels.sigmas if not math.isnan(level)), default=0.0)
    if sigma < largest and on_warning is not None:
        on_warning(
            f"the router's sigma {sigma:g} is below the largest expert's, {largest:g}: with as many votes a route "
            f"cannot be certified as far as that expert certifies; use sigma {largest:g} or more"
        )
    network: dict[str, Any] = {"architecture": architecture, "options": options, "normalisation": normalisation}
    noises = [None if math.isnan(level) else level for level in labels.sigmas]
    plan = {"labels": {"experts": labels.experts, "sigmas": noises, "fingerprint": labels.fingerprint}}
    said = {**plan["labels"], "shares": labels.shares.tolist(), "dropped": labels.dropped}
    return train_network(
        described(dataset, start, classes=len(labels.experts), sigma=sigma, same_classes=False, **network),
        method,
        examples_of(inputs.training, inputs.training_radii),
        settings,
        out=Path(out),
        sources={**sources_of(dataset, start=start, denoiser=denoiser), **plan, "held_out": held_out},
        start=start,
        denoiser=denoiser,
        notes={**noise_note(noise), "router": said},
        validate=watcher,
        on_epoch=on_epoch,
        on_step=on_step,
        on_resume=watcher.remember,
    )


class _Inputs(NamedTuple):
    """The labelled inputs that some expert certifies, and how far each expert certifies them."""

    training: Dataset
    training_radii: Floats  # (n, K)
    held_out: Dataset
    held_out_radii: Floats
    shares: tuple[float, ...]  # which share of all of them each expert is best for

    def watcher(
        self, method: Method, sigma: float, settings: Settings, routes: list[str], on_warning: OnWarning | None
    ) -> Watcher:
        """What looks at the router on some of the inputs held out."""
        return Watcher(
            pixels=on_device(first(self.held_out, INPUTS), settings.torch_device()),
            radii=self.held_out_radii[:INPUTS].astype(np.float64),
            shares=self.shares,
            sigma=sigma,
            seed=settings.seed,
            epochs=settings.epochs,
            routes=routes,
            advice=advice(method),
            on_warning=on_warning,
            noise=method.noise,
        )


def _divided(dataset: Dataset, labels: Labels, held_out: float, seed: int) -> _Inputs:
    if len(labels.experts) < 2:
        raise RequestError("a router chooses among experts, and these are the labels of one; label with more")
    kept = labels.select(dataset)
    # Rounded once, here: the loss, its weights and the metrics must agree on which expert is best.
    radii = labels.radii[labels.kept].astype(np.float32)
    held, training = split(len(kept), held_out, seed, name="held_out")
    return _Inputs(kept.take(training), radii[training], kept.take(held), radii[held], shares_of(radii))
