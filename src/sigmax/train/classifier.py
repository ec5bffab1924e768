"""Train one classifier: from a data set to a checkpoint."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sigmax
from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Description, Normalisation
from sigmax.train.gaussian import Gaussian
from sigmax.train.loop import WEIGHTS, fit, seeded
from sigmax.train.method import Examples, Method
from sigmax.train.partial import Partial, refuse_other_plan
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
    out, sigma, settings = Path(out), float(sigma), settings or Settings()
    device = settings.torch_device()
    taught = method(sigma)
    description = Description(
        architecture=architecture,
        options=options or {},
        classes=len(dataset.classes),
        input_shape=dataset.shape,
        normalisation=models.normalisation(normalisation),
        sigma=sigma,
    )
    # Drawn on the CPU, so that the seed's first weights are the same on every device.
    with seeded(settings.seed, WEIGHTS, torch.device("cpu")):
        model = models.create(description)
    plan = _plan(model.description, taught, dataset, settings)
    partial = Partial(Path(f"{out}.partial"), plan)
    _check_output(out)
    if not _is_finished(out, plan):
        examples = _examples(dataset, device)
        metrics = Path(f"{out}.metrics.jsonl")
        fit(
            model.to(device),
            taught,
            examples,
            settings,
            partial=partial,
            metrics=metrics,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        model.description = replace(model.description, notes=_notes(plan, dataset))
        models.save(out, model)
    partial.remove()
    return out


def _examples(dataset: Dataset, device: torch.device) -> Examples:
    """The whole data set, moved to the device once."""
    pixels = dataset.pixels(np.arange(len(dataset)))
    return Examples(torch.from_numpy(pixels).to(device), torch.tensor(dataset.labels, device=device))


def _plan(description: Description, method: Method, dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """All that the result depends on. Two runs with the same plan are the same run."""
    plan = {
        "architecture": description.architecture,
        "options": description.options,
        "classes": description.classes,
        "normalisation": description.normalisation and asdict(description.normalisation),
        "method": method.plan(),
        "data": {"name": dataset.name, "split": dataset.split, "fingerprint": dataset.fingerprint},
        "settings": settings.plan(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))  # as it will be read back: lists, not tuples
    return plain


def _notes(plan: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    return {
        "training": plan,
        "class_names": dataset.classes,
        "made_with": {"sigmax": sigmax.__version__, "torch": str(torch.__version__)},
    }


def _check_output(out: Path) -> None:
    if out.suffix != ".safetensors":
        raise RequestError(f"a checkpoint's name ends in .safetensors, got {out}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"the folder of {out} cannot be made: {error}") from error
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise RequestError(f"the folder {out.parent} is not writable; choose another output")


def _is_finished(out: Path, plan: Mapping[str, Any]) -> bool:
    """Whether this very run is done; a file that another run made is an error."""
    if not out.exists():
        return False
    there = models.read(out).description.notes.get("training", {})
    refuse_other_plan(there, plan, f"{out} exists and was made by another run")
    return True
