"""Train one classifier: from a data set to a checkpoint."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Classifier, Normalisation
from sigmax.train.loop.fit import Watching
from sigmax.train.loop.held_out import divided, first
from sigmax.train.loop.network import described, examples_of, sources_of, train_network
from sigmax.train.loop.noisy import NoiseName, noise_note, refuse_denoiser
from sigmax.train.loop.quick_check import IMAGES, QuickCheck
from sigmax.train.loop.settings import Settings
from sigmax.train.loop.stored import on_device
from sigmax.train.methods.base import Method
from sigmax.train.methods.gaussian import GaussianTraining
from sigmax.train.methods.own_noise import OwnNoise


def train_classifier(
    dataset: Dataset,
    *,
    architecture: str = "small-cnn",
    sigma: float,
    noise: NoiseName = "gaussian",
    out: str | Path,
    options: Mapping[str, Any] | None = None,
    normalisation: str | Normalisation | None = None,
    start: Classifier | None = None,
    denoiser: nn.Module | None = None,
    tune_denoiser: bool = False,
    settings: Settings | None = None,
    method: Callable[[float], Method] | None = None,
    validation: float | Dataset = 0.0,
    validate_every: int = 10,
    **watching: Unpack[Watching],
) -> Path:
    """Train the architecture on the data with noise of level `sigma`, in pixels; returns the checkpoint's path, `out`.

    noise: its distribution; of "uniform" and "splitting" noise `sigma` is the scale. method: makes the training method
    of a noise; without it the cross-entropy of noisy images. start: a classifier whose weights to begin with, which
    also decides architecture, options and normalisation; of another number of classes its last layer is begun afresh.
    denoiser: removes the noise before the classifier sees an image, and stays as it is; what is written is the
    classifier alone. tune_denoiser: a copy of it is trained by the same loss, and written to `denoiser_path(out)`.
    validation: a share of the images to hold out, or images of another split, on (some of) which the metrics say every
    `validate_every` epochs how the smoothed classifier does (`QuickCheck`).

    What is wrong with the request is said before anything is trained. A run that was cut short goes on when called
    again with the same request, and ends with the weights it would have had; a finished one returns at once, and a file
    of another request is never overwritten. Beside `out` lie its metrics (`.metrics.jsonl`) and, until the end, its
    state.
    """
    sigma, settings = float(sigma), settings or Settings()
    refuse_denoiser(denoiser, noise)
    made = _checked(GaussianTraining(sigma, noise=noise) if method is None else method(sigma), noise, denoiser)
    dataset.needed_labels("training a classifier")
    division = divided(dataset, validation, settings.seed)
    network: dict[str, Any] = {"architecture": architecture, "options": options, "normalisation": normalisation}
    description = described(dataset, start, classes=len(dataset.classes), sigma=sigma, same_classes=False, **network)
    return train_network(
        description,
        made,
        examples_of(division.training),
        settings,
        out=Path(out),
        sources={**sources_of(dataset, start=start, denoiser=denoiser), **division.plan},
        notes={"class_names": dataset.classes, **noise_note(noise)},
        start=start,
        denoiser=denoiser,
        tune_denoiser=tune_denoiser,
        validate=_quick_check(division.held_out, sigma, noise, settings, validate_every),
        **watching,
    )


def _checked(method: Method, noise: NoiseName, denoiser: nn.Module | None) -> Method:
    if method.noise != noise:
        raise RequestError(
            f"the method {method.name!r} trains under {method.noise} noise, and noise={noise!r} was asked for; make it "
            f"with noise={noise!r}"
        )
    if denoiser is not None and isinstance(method, OwnNoise):
        raise RequestError(
            f"denoised training has one noise for all images, and {method.name} has one for each; leave one out"
        )
    return method


def _quick_check(
    held: Dataset | None, sigma: float, noise: NoiseName, settings: Settings, every: int
) -> QuickCheck | None:
    if not (type(every) is int and every >= 1):
        raise RequestError(f"validate_every: expected a whole number of at least 1, got {every!r}")
    if held is None:
        return None
    seen = first(held, IMAGES)
    return QuickCheck(
        pixels=on_device(seen, settings.torch_device()),
        labels=seen.needed_labels("validation"),
        classes=len(seen.classes),
        sigma=sigma,
        seed=settings.seed,
        epochs=settings.epochs,
        every=every,
        noise=noise,
    )
