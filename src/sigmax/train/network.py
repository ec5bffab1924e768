"""From a request to a checkpoint: what the training of a classifier and of a router have in common."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sigmax
from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.files import check_writable
from sigmax.models import Classifier, Denoiser, Description
from sigmax.system.networks import fingerprint_of
from sigmax.train import distributed
from sigmax.train.behind import Behind, Together
from sigmax.train.loop import WEIGHTS, Validate, fit, seeded
from sigmax.train.method import Examples, Method
from sigmax.train.partial import Partial, refuse_other_plan
from sigmax.train.progress import OnEpoch, OnResume, OnStep
from sigmax.train.settings import Settings


def train_network(
    description: Description,
    method: Method,
    examples: Callable[[torch.device], Examples],
    settings: Settings,
    *,
    out: Path,
    made_from: Mapping[str, Any],
    notes: Mapping[str, Any],
    start: Classifier | Denoiser | None = None,
    behind: nn.Module | None = None,
    tune_behind: bool = False,
    validate: Validate | None = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
    on_resume: OnResume | None = None,
) -> Path:
    """Train the described network by the method and return the checkpoint's path, `out`.

    What is wrong with the request is said before anything is trained. A run that was cut short goes on when
    called again with the same request, and ends with the weights it would have had; a finished one returns at
    once. A file at `out` that another request made is never overwritten. Beside `out` lie its metrics
    (`metrics_path`, one line an epoch) and, until the end, its state (`.partial`).

    `examples` is asked for the training inputs only when something is left to train. `made_from` names them: with
    description, method and settings it is the plan, all that the result depends on. `notes` are kept as they are.
    `start`: a network of the same description whose weights to begin with; of another number of classes its last
    layer is left out. `behind`: a denoiser that the images pass first, and that stays as it is; `made_from` names
    both. `tune_behind`: a copy of it is trained as well, and written to `denoiser_path(out)`.

    Under `torchrun` every process calls this with the same request, and they train together (see `distributed`).
    """
    method.images(settings.batch)  # refuses copies that do not divide the batch
    with distributed.team(settings.device) as team:
        device = team.together(settings.torch_device)
        # Drawn on the CPU, so that the seed's first weights are the same on every device.
        with seeded(settings.seed, WEIGHTS, device=torch.device("cpu")):
            model = models.create_denoiser(description) if description.denoises else models.create(description)
        if start is not None:
            _take_over(model, start)
        tuned = _to_tune(behind) if tune_behind else None
        if behind is not None and tuned is None:
            behind.to(device)
        more = {} if tuned is None else {"tunes_denoiser": True}
        plan = _plan(model.description, method, settings, {**made_from, **more})
        partial = Partial(Path(f"{out}.partial"), plan)
        files = [out] if tuned is None else [denoiser_path(out), out]
        if not team.from_first(lambda: _is_finished(files, plan)):
            fit(
                _trained(model, behind, tuned, method).to(device),
                method,
                team.together(lambda: examples(device)),
                settings,
                partial=partial,
                metrics=metrics_path(out),
                validate=validate,
                on_epoch=on_epoch,
                on_step=on_step,
                on_resume=on_resume,
                team=team,
            )
            made_with = {"sigmax": sigmax.__version__, "torch": str(torch.__version__)}
            complete = {"training": plan, **notes, "made_with": made_with}
            if tuned is not None:
                tuned.description = replace(tuned.description, notes={"training": plan, "made_with": made_with})
                team.at_first(lambda: models.save(denoiser_path(out), tuned))
                complete["denoiser"] = models.fingerprint(tuned)
            model.description = replace(model.description, notes=complete)
            team.at_first(lambda: models.save(out, model))  # last: where it is, all of it is
        team.at_first(partial.remove)
    return out


def _take_over(model: nn.Module, start: nn.Module) -> None:
    """Begin with the weights of `start`; a layer of another number of classes keeps its own."""
    own = model.state_dict()
    model.load_state_dict(
        {
            name: tensor if tensor.shape == own[name].shape else own[name]
            for name, tensor in start.state_dict().items()
        }
    )


def _trained(
    model: Classifier | Denoiser, behind: nn.Module | None, tuned: Denoiser | None, method: Method
) -> nn.Module:
    """What the training loop sees: the model, behind a denoiser where there is one."""
    sigma = getattr(method, "sigma", None)
    if tuned is not None:
        return Together(tuned, model, sigma)
    return model if behind is None else Behind(behind, model, sigma)


def _to_tune(denoiser: nn.Module | None) -> Denoiser:
    """A copy to train: the one that was given stays as it is."""
    if not isinstance(denoiser, Denoiser):
        told = "none was given" if denoiser is None else f"got a {type(denoiser).__name__}"
        raise RequestError(
            f"to tune the denoiser too, give one that can be saved, such as `sigmax train denoiser` makes; {told}"
        )
    return copy.deepcopy(denoiser).requires_grad_(True)


def denoiser_path(out: Path) -> Path:
    """Where the denoiser that was tuned together with the checkpoint `out` is."""
    return out.with_name(f"{out.stem}.denoiser{out.suffix}")


def metrics_path(out: Path) -> Path:
    """Where the metrics of the run that makes the checkpoint `out` are."""
    return Path(f"{out}.metrics.jsonl")


def told_of_denoiser(denoiser: nn.Module | None) -> dict[str, str]:
    """What a plan says of the denoiser that its images pass first; nothing where there is none."""
    return {} if denoiser is None else {"denoiser": fingerprint_of("denoiser", denoiser)}


def told_of(dataset: Dataset) -> dict[str, str]:
    """What a plan says of its data."""
    return {"name": dataset.name, "split": dataset.split, "fingerprint": dataset.fingerprint}


def images(dataset: Dataset, device: torch.device) -> torch.Tensor:
    """All pixels of the data set, moved to the device once."""
    return torch.from_numpy(dataset.pixels(np.arange(len(dataset)))).to(device)


def _plan(
    description: Description, method: Method, settings: Settings, made_from: Mapping[str, Any]
) -> dict[str, Any]:
    """All that the result depends on. Two runs with the same plan are the same run."""
    plan = {
        "architecture": description.architecture,
        "options": description.options,
        "classes": description.classes,
        "normalisation": description.normalisation and asdict(description.normalisation),
        "method": method.plan(),
        **made_from,
        "settings": settings.plan(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))  # as it will be read back: lists, not tuples
    return plain


def _check_output(out: Path) -> None:
    if out.suffix != ".safetensors":
        raise RequestError(f"a checkpoint's name ends in .safetensors, got {out}")
    check_writable(out)


def _is_finished(files: Sequence[Path], plan: Mapping[str, Any]) -> bool:
    """Whether this very run is done; a file that another run made, or no place for one, is an error."""
    _check_output(files[-1])
    for file in files:
        if file.exists():
            there = models.read(file).description.notes.get("training", {})
            refuse_other_plan(there, plan, f"{file} exists and was made by another run")
    return all(file.exists() for file in files)
