"""From a request to a checkpoint: what the trainings of all networks have in common."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from numpy.typing import NDArray
from torch import nn

import sigmax
from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.files import check_writable
from sigmax.models import Classifier, Denoiser, Description, Normalisation
from sigmax.request import refuse_other
from sigmax.systems.networks import fingerprint_of
from sigmax.train.denoised import DenoisedTraining
from sigmax.train.loop import distributed
from sigmax.train.loop.fit import WEIGHTS, Callbacks, fit, seeded
from sigmax.train.loop.partial import Partial
from sigmax.train.loop.progress import metrics_path
from sigmax.train.loop.settings import Settings
from sigmax.train.loop.stored import stored
from sigmax.train.methods.base import Examples, Method

MakeExamples = Callable[[torch.device], Examples]


def train_network(
    description: Description,
    method: Method,
    examples: MakeExamples,
    settings: Settings,
    *,
    out: Path,
    sources: Mapping[str, Any],
    notes: Mapping[str, Any],
    start: Classifier | Denoiser | None = None,
    denoiser: nn.Module | None = None,
    tune_denoiser: bool = False,
    **callbacks: Unpack[Callbacks],
) -> Path:
    """Train the described network by the method and return the checkpoint's path, `out`; as `train_classifier` says.

    `examples` is asked for the training inputs only when something is left to train. `sources` (see `sources_of`) names
    them: with description, method and settings it is the plan, all that the result depends on. `notes` are kept as they
    are. Under `torchrun` every process calls this with the same request, and they train together (see `distributed`).
    """
    method.images(settings.batch)  # refuses copies that do not divide the batch
    with distributed.team(settings.device) as team:
        device = team.together(settings.torch_device)
        networks = _Networks.first(description, settings, start, denoiser, tune_denoiser)
        plan = _plan(networks, method, settings, sources)
        partial = Partial(Path(f"{out}.partial"), plan)
        if not team.from_first(lambda: _is_finished(networks.files(out), plan)):
            fit(
                networks.in_training(method, device),
                method,
                team.together(lambda: examples(device)),
                settings,
                partial=partial,
                metrics=metrics_path(out),
                team=team,
                **callbacks,
            )
            team.at_first(lambda: networks.save(out, plan, notes))
        team.at_first(partial.remove)
    return out


@dataclass(frozen=True)
class _Networks:
    """The network of a run, and the denoiser before it where there is one."""

    model: Classifier | Denoiser
    denoiser: nn.Module | None  # stays as it is
    tuned: Denoiser | None  # is trained as well

    @classmethod
    def first(
        cls,
        description: Description,
        settings: Settings,
        start: nn.Module | None,
        denoiser: nn.Module | None,
        tune: bool,
    ) -> "_Networks":
        """With the weights to begin with."""
        # Sampled on the CPU, so that the seed's first weights are the same on every device.
        with seeded(settings.seed, WEIGHTS, device=torch.device("cpu")):
            model = models.create_denoiser(description) if description.denoises else models.create(description)
        if start is not None:
            own = model.state_dict()  # which a layer of another number of classes keeps
            there = start.state_dict().items()
            model.load_state_dict({n: tensor if tensor.shape == own[n].shape else own[n] for n, tensor in there})
        return cls(model, None, _to_tune(denoiser)) if tune else cls(model, denoiser, None)

    def in_training(self, method: Method, device: torch.device) -> nn.Module:
        """What the training loop sees: the network, or the pair with its denoiser."""
        sigma = getattr(method, "sigma", None)
        if self.tuned is not None:
            return DenoisedTraining(self.tuned, self.model, sigma, joint=True).to(device)
        if self.denoiser is not None:
            return DenoisedTraining(self.denoiser.to(device), self.model, sigma).to(device)
        return self.model.to(device)

    def files(self, out: Path) -> list[Path]:
        """What the run writes; the last is `out`, so that where it is, all of it is."""
        return [out] if self.tuned is None else [denoiser_path(out), out]

    def save(self, out: Path, plan: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
        """Write what was trained, with the plan of the run."""
        versions = {"sigmax": sigmax.__version__, "torch": str(torch.__version__)}
        more: dict[str, Any] = {}
        if self.tuned is not None:
            own = {"training": plan, "made_with": versions}
            self.tuned.description = replace(self.tuned.description, notes=own)
            models.save(denoiser_path(out), self.tuned)
            more = {"denoiser": models.fingerprint(self.tuned)}
        complete = {"training": plan, **notes, "made_with": versions, **more}
        self.model.description = replace(self.model.description, notes=complete)
        models.save(out, self.model)


def _to_tune(denoiser: nn.Module | None) -> Denoiser:
    """A copy to train: the one that was given stays as it is."""
    if not isinstance(denoiser, Denoiser):
        got = "none was given" if denoiser is None else f"got a {type(denoiser).__name__}"
        raise RequestError(
            f"to tune the denoiser too, give one that can be saved, such as one of `sigmax train denoiser`; {got}"
        )
    return copy.deepcopy(denoiser).requires_grad_(True)


def denoiser_path(out: Path) -> Path:
    """Where the denoiser that was tuned together with the checkpoint `out` is."""
    return out.with_name(f"{out.stem}.denoiser{out.suffix}")


def described(
    dataset: Dataset,
    start: Classifier | Denoiser | None,
    *,
    architecture: str,
    options: Mapping[str, Any] | None,
    classes: int,
    sigma: float | None,
    normalisation: str | Normalisation | None = None,
    same_classes: bool = True,
) -> Description:
    """The network for these images; the one to begin with decides its architecture, and is refused for other data."""
    if start is None:
        return Description(
            architecture=architecture,
            options=options or {},
            classes=classes,
            input_shape=dataset.shape,
            normalisation=models.normalisation(normalisation),
            sigma=sigma,
        )
    there = start.description
    if there.input_shape != dataset.shape or (same_classes and there.classes != classes):
        raise RequestError(
            f"the network to begin with is for images {there.input_shape} of {there.classes} classes, and the data "
            f"has {dataset.shape} of {classes}; begin with another, or with none"
        )
    return replace(there, classes=classes, sigma=sigma, notes={})


def sources_of(
    dataset: Dataset, *, start: nn.Module | None = None, denoiser: nn.Module | None = None
) -> dict[str, Any]:
    """What a plan says of its data, of the network to begin with, and of the denoiser that the images pass first."""
    data = {"name": dataset.name, "split": dataset.split, "fingerprint": dataset.fingerprint}
    return {
        "data": data,
        **({} if start is None else {"start": models.fingerprint(start)}),
        **({} if denoiser is None else {"denoiser": fingerprint_of("denoiser", denoiser)}),
    }


def examples_of(dataset: Dataset, targets: NDArray[Any] | None = None) -> MakeExamples:
    """The data set to train on, with its classes or other targets."""
    values = dataset.needed_labels("training") if targets is None else targets
    return lambda device: Examples(stored(dataset, device), torch.tensor(values, device=device))


def _plan(networks: _Networks, method: Method, settings: Settings, sources: Mapping[str, Any]) -> dict[str, Any]:
    """All that the result depends on. Two runs with the same plan are the same run."""
    description = networks.model.description
    plan = {
        "architecture": description.architecture,
        "options": description.options,
        "classes": description.classes,
        "normalisation": description.normalisation and asdict(description.normalisation),
        "method": method.plan(),
        **sources,
        **({} if networks.tuned is None else {"tunes_denoiser": True}),
        "settings": settings.plan(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))  # as it will be read back: lists, not tuples
    return plain


def _is_finished(files: Sequence[Path], plan: Mapping[str, Any]) -> bool:
    """Whether this very run is done; a file of another run, or no place for one, is an error."""
    if files[-1].suffix != ".safetensors":
        raise RequestError(f"a checkpoint's name ends in .safetensors, got {files[-1]}")
    check_writable(files[-1])
    for file in files:
        if file.exists():
            there = models.read(file).description.notes.get("training", {})
            refuse_other(there, plan, f"{file} exists and was made by another run")
    return all(file.exists() for file in files)
