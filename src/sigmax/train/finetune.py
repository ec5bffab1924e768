"""Fine-tune the experts of a dual system under the noise its router gives each input.

Source: Dual randomized smoothing (Sun et al. 2026), Sec. 5.2.2: cross-entropy on x + sigma(x) * noise, where
sigma(x) is the smoothed router's choice. The paper's classifier is one network for all noise levels; experts with a
network each are trained on the inputs that are routed to them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sigmax import models
from sigmax.certify.dual import Dual
from sigmax.certify.smoothed import Smoothed
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Classifier
from sigmax.noise.voter import Model
from sigmax.records.certificate import leading
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.network import images, told_of, train_network
from sigmax.train.progress import OnStep
from sigmax.train.settings import Settings

FINE_TUNING = Settings(  # the paper's, on CIFAR-10; it names no schedule
    epochs=15, batch=128, optimiser="adamw", lr=2e-5, weight_decay=0.01, schedule="constant"
)
ROUTED_TOGETHER = 256  # inputs a call of the router
Routes = NDArray[np.int64]


@dataclass(frozen=True)
class Routed(Method):
    """Cross-entropy on inputs with the noise of their route. Targets are (class, route), (n, 2)."""

    name: ClassVar[str] = "routed"
    sigmas: tuple[float, ...]  # noise of each route, in pixels

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        classes, routes = batch.targets.unbind(dim=1)
        sigma = batch.pixels.new_tensor(self.sigmas)[routes]
        return scored(model, with_noise(batch, sigma), classes)


@dataclass(frozen=True)
class Mixed(Method):
    """Cross-entropy on inputs with noise of a random one of several sigmas: one network for all of them."""

    name: ClassVar[str] = "mixed"
    sigmas: tuple[float, ...]  # in pixels

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        device = batch.pixels.device
        which = torch.randint(len(self.sigmas), (len(batch.pixels),), device=device, generator=batch.generator)
        return scored(model, with_noise(batch, batch.pixels.new_tensor(self.sigmas)[which]), batch.targets)


def with_noise(batch: Batch, sigma: Tensor) -> Tensor:
    """The pixels with fresh noise on them, each input with a sigma of its own; not clamped."""
    noise = torch.randn(
        batch.pixels.shape, device=batch.pixels.device, dtype=batch.pixels.dtype, generator=batch.generator
    )
    return batch.pixels + sigma[:, None, None, None] * noise


def scored(model: nn.Module, noisy: Tensor, classes: Tensor) -> Score:
    """Cross-entropy and the share of right answers."""
    logits = model(noisy)
    return Score(functional.cross_entropy(logits, classes), (logits.argmax(dim=1) == classes).float().mean())


def fine_tune(
    dual: Dual,
    dataset: Dataset,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    n: int = 100,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Dual:
    """The same system with experts fine-tuned on the data, each input under the noise that the router gives it.

    `n` votes decide each input's route. The new networks are kept in `folder`, one file for each network of the
    experts; a call that was cut short goes on when repeated, and a finished one returns at once. Experts whose
    route no input takes stay as they are.
    """
    settings, folder = settings or FINE_TUNING, Path(folder)
    groups = _networks(dual)
    if dual.classes != len(dataset.classes):
        raise RequestError(
            f"the system tells {dual.classes} classes apart, but {dataset.name} has {len(dataset.classes)}; "
            "fine-tune on the data the experts were trained for"
        )
    routes = routes_of(dual.router, dataset, n=n, seed=seed)
    tuned: dict[int, Model] = {}
    parts = {j: np.flatnonzero(np.isin(routes, group)) for j, group in groups.items()}
    before, total = 0, sum(_steps(settings, len(part)) for part in parts.values())
    for j, group in groups.items():
        path = folder / f"expert-{j}.safetensors"
        if len(parts[j]):
            watch = _shifted(on_step, before, total)
            path = _tune(dual, group, dataset, routes, path, settings=settings, votes=(n, seed), on_step=watch)
            tuned |= dict.fromkeys(group, models.load(path)[0])
        else:
            tuned |= dict.fromkeys(group, dual.experts[j].voters["base"].model)
        before += _steps(settings, len(parts[j]))
    experts = [_with_network(expert, tuned[j]) for j, expert in enumerate(dual.experts)]
    return Dual(dual.router, experts, rule=dual.combination)


def routes_of(router: Smoothed, dataset: Dataset, *, n: int = 100, seed: int = 0) -> Routes:
    """(N,) which route most of `n` votes take, for every input."""
    found: list[int] = []
    for first in range(0, len(dataset), ROUTED_TOGETHER):
        part = range(first, min(first + ROUTED_TOGETHER, len(dataset)))
        # Which route leads is asked, not whether it is shown to lead: any alpha will do.
        votes = router.predict(dataset.pixels(part), n=n, alpha=0.5, seed=seed, ids=part)
        found += [leading(vote.stages[0].counts)[0] for vote in votes]
    return np.array(found, dtype=np.int64)


def _networks(dual: Dual) -> dict[int, list[int]]:
    """The routes that share a network, by the first of them."""
    groups: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for j, expert in enumerate(dual.experts):
        if not isinstance(expert, Smoothed) or models.describe(expert.voters["base"].model) is None:
            raise RequestError(
                f"expert {j} is a {type(expert).__name__} that cannot be fine-tuned; fine-tuning needs Smoothed "
                "experts over registered networks (a routed expert is fine-tuned as a system of its own, before)"
            )
        group = first.setdefault(id(expert.voters["base"].model), j)
        groups.setdefault(group, []).append(j)
    return groups


def _tune(
    dual: Dual,
    group: Sequence[int],
    dataset: Dataset,
    routes: Routes,
    out: Path,
    *,
    settings: Settings,
    votes: tuple[int, int],
    on_step: OnStep | None,
) -> Path:
    start = dual.experts[group[0]].voters["base"].model
    assert isinstance(start, Classifier)
    taken = np.flatnonzero(np.isin(routes, group))
    sigmas = tuple(expert.rule.largest_noise for expert in dual.experts)
    own = {sigmas[j] for j in group}

    def examples(device: torch.device) -> Examples:
        targets = np.stack([dataset.labels[taken], routes[taken]], axis=1)
        return Examples(images(dataset.take(taken), device), torch.from_numpy(targets).to(device))

    router = models.fingerprint(dual.router.voters["base"].model)  # type: ignore[arg-type]  # a module, as its fingerprint says
    made_from: Mapping[str, Any] = {
        "data": told_of(dataset),
        "start": models.fingerprint(start),
        "router": {"network": router, "sigma": dual.router.sigma, "votes": votes[0], "seed": votes[1]},
        "routes": sorted(group),
    }
    return train_network(
        replace(start.description, sigma=own.pop() if len(own) == 1 else None),
        Routed(sigmas),
        examples,
        settings,
        out=out,
        made_from=made_from,
        notes={"class_names": dataset.classes},
        start=start,
        on_step=on_step,
    )


def _with_network(expert: object, model: Model) -> Smoothed:
    """The expert over another network, voting in the same way."""
    assert isinstance(expert, Smoothed)
    assert isinstance(expert.rule, SmoothedRule)
    voter = expert.voters["base"]
    return Smoothed(
        model,
        sigma=expert.sigma,
        classes=expert.classes,
        bound=expert.rule.bound,
        device=voter.device,
        dtype=voter.dtype,
        compile=voter.compiled,
        domain=expert.domain,
    )


def _steps(settings: Settings, inputs: int) -> int:
    return settings.epochs * math.ceil(inputs / settings.batch)


def _shifted(on_step: OnStep | None, before: int, total: int) -> OnStep | None:
    """The same callback, counting on from the networks before."""
    return on_step and (lambda done, _: on_step(before + done, total))
