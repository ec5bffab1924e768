"""Train one classifier: from a data set to a checkpoint."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from sigmax import models
from sigmax.data import Dataset
from sigmax.models import Description, Normalisation
from sigmax.train.gaussian import Gaussian
from sigmax.train.method import Examples, Method
from sigmax.train.network import images, told_of, train_network
from sigmax.train.progress import OnEpoch, OnStep
from sigmax.train.settings import Settings


def train_classifier(
    dataset: Dataset,
    *,
    architecture: str,
    sigma: float,
    out: str | Path,
    options: Mapping[str, Any] | None = None,
    normalisation: str | Normalisation | None = None,
    settings: Settings | None = None,
    method: Callable[[float], Method] = Gaussian,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Train the architecture on the data with noise `sigma`, in pixels, and return the checkpoint's path, `out`.

    What is wrong with the request is said before anything is trained. A run that was cut short goes on when
    called again with the same request, and ends with the weights it would have had; a finished one returns at
    once. A file at `out` that another request made is never overwritten. Beside `out` lie its metrics
    (`.metrics.jsonl`, one line an epoch) and, until the end, its state (`.partial`).

    `method(sigma)` makes the training method.
    """
    sigma = float(sigma)

    def examples(device: torch.device) -> Examples:
        return Examples(images(dataset, device), torch.tensor(dataset.labels, device=device))

    return train_network(
        Description(
            architecture=architecture,
            options=options or {},
            classes=len(dataset.classes),
            input_shape=dataset.shape,
            normalisation=models.normalisation(normalisation),
            sigma=sigma,
        ),
        method(sigma),
        examples,
        settings or Settings(),
        out=Path(out),
        made_from={"data": told_of(dataset)},
        notes={"class_names": dataset.classes},
        on_epoch=on_epoch,
        on_step=on_step,
    )
