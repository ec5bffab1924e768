"""Fine-tune the experts of a dual system under the noise its router gives each input.

Source: Dual randomized smoothing (Sun et al. 2026), Sec. 5.2.2: cross-entropy on x + sigma(x) * noise, where
sigma(x) is the smoothed router's choice. The paper's classifier is one network for all noise levels; experts with a
network each are trained on the inputs that are routed to them. Experts that were trained for consistency can be
asked for it here too, which is not in the paper.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sigmax import models
from sigmax.certify.checks import is_whole
from sigmax.certify.dual import Dual
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models import Classifier, Denoised
from sigmax.noise.draws import check_word
from sigmax.records.certificate import leading
from sigmax.system.folder import fingerprint
from sigmax.train.behind import answers, classifier_of, denoiser_of
from sigmax.train.consistency import fit, unsteadiness
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.network import images, told_of, told_of_denoiser, train_network
from sigmax.train.noise_attack import in_full
from sigmax.train.noisy import by_copy, noisy_copies, uniform
from sigmax.train.partial import refuse_other_plan
from sigmax.train.progress import OnStep
from sigmax.train.settings import Settings

FINE_TUNING = Settings(  # the paper's, on CIFAR-10; it names no schedule
    epochs=15, batch=128, optimiser="adamw", lr=2e-5, weight_decay=0.01, schedule="constant"
)
ROUTED_TOGETHER = 256  # inputs a call of the router
FEWEST_VOTES = 2  # a prediction, which is where the votes come from, asks for no fewer
ROUTES = "routes.json"
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
        return scored(model, noisy_copies(batch.pixels, sigma, 1, batch.generator), sigma, classes)


@dataclass(frozen=True)
class RoutedConsistency(Routed):
    """The loss of `Consistency` on inputs with the noise of their route, two noisy copies of each."""

    name: ClassVar[str] = "routed-consistency"
    consistency: float = 10.0  # weight of the copies' disagreement
    entropy: float = 0.5  # weight of the entropy of their mean
    copies: int = field(default=2, init=False)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        classes, routes = batch.targets.unbind(dim=1)
        sigma = batch.pixels.new_tensor(self.sigmas)[routes]
        noisy = noisy_copies(batch.pixels, sigma, self.copies, batch.generator)
        log_f = in_full(by_copy(answers(model, noisy, sigma.repeat(self.copies)), self.copies)).log_softmax(dim=2)
        losses = fit(log_f, classes) + unsteadiness(log_f, consistency=self.consistency, entropy=self.entropy)
        return Score(losses.mean(), (log_f.argmax(dim=2) == classes).float().mean())


@dataclass(frozen=True)
class Mixed(Method):
    """Cross-entropy on inputs with noise of a random one of several sigmas: one network for all of them."""

    name: ClassVar[str] = "mixed"
    sigmas: tuple[float, ...]  # in pixels

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        which = (uniform(batch.pixels, batch.generator) * len(self.sigmas)).long()
        sigma = batch.pixels.new_tensor(self.sigmas)[which]
        return scored(model, noisy_copies(batch.pixels, sigma, 1, batch.generator), sigma, batch.targets)


def scored(model: nn.Module, noisy: Tensor, sigma: Tensor, classes: Tensor) -> Score:
    """Cross-entropy and the share of right answers."""
    logits = answers(model, noisy, sigma)
    return Score(functional.cross_entropy(logits, classes), (logits.argmax(dim=1) == classes).float().mean())


def fine_tune(
    dual: Dual,
    dataset: Dataset,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    n: int = 100,
    seed: int = 0,
    consistency: float = 0.0,
    on_step: OnStep | None = None,
    on_routes: Callable[[list[int]], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Dual:
    """The same system with experts fine-tuned on the data, each input under the noise that the router gives it.

    What is wrong with the request is said before anything is computed. `n` votes decide each input's route. The
    routes and the new networks, one file for each network of the experts, are kept in `folder`: a call that was cut
    short goes on when repeated and ends with the same weights, a finished one returns at once, and what another
    request made is never overwritten. Of experts that denoise first the classifier is fine-tuned, on denoised
    images, and the denoiser stays. Experts whose route no input takes stay as they are. Before the training
    `on_routes` is told how many inputs each route got, and `on_warning` of those that got none.

    `consistency` is the weight of agreement between two noisy copies of an input, as in the method of that name; a
    step's batch then holds two copies each of half as many inputs.
    """
    settings, folder = settings or FINE_TUNING, Path(folder)
    groups = shared_networks(dual.experts)
    method = _method(tuple(expert.rule.largest_noise for expert in dual.experts), consistency)
    together = method.images(settings.batch)
    _check(dual, dataset, settings, folder, n)
    made_from = {
        "data": told_of(dataset),
        "router": {"system": fingerprint(dual.router), "votes": int(n), "seed": check_word("seed", seed)},
    }
    routes = _kept_routes(folder / ROUTES, dual.router, dataset, made_from)
    counts = np.bincount(routes, minlength=len(dual.experts)).tolist()
    if on_routes is not None:
        on_routes(counts)
    if on_warning is not None:
        for warning in _empty_routes(dual.experts, groups, counts):
            on_warning(warning)
    # Which inputs go where was decided by a machine's last bits: the networks' plans hold on to it.
    made_from["routes"] = hashlib.sha256(routes.astype("<i8").tobytes()).hexdigest()[:32]
    taken = {first: np.flatnonzero(np.isin(routes, group)) for first, group in groups.items()}
    steps = {first: settings.epochs * math.ceil(len(inputs) / together) for first, inputs in taken.items()}
    experts, before = list(dual.experts), 0
    for first, group in groups.items():
        if not len(taken[first]):
            continue
        network = _tune(
            [dual.experts[j] for j in group],
            method,
            dataset.take(taken[first]),
            routes[taken[first]],
            settings,
            out=folder / f"expert-{first}.safetensors",
            made_from={**made_from, "of_routes": group},
            on_step=_shifted(on_step, before, sum(steps.values())),
        )
        for j in group:
            experts[j] = _over(network, dual.experts[j])
        before += steps[first]
    return Dual(dual.router, experts, rule=dual.combination)


def check_tuning(settings: Settings, consistency: float) -> None:
    """Raise unless experts can be fine-tuned like this, whichever they are."""
    _method((), consistency).images(settings.batch)


def _method(sigmas: tuple[float, ...], consistency: float) -> Routed:
    if not 0 <= consistency < math.inf:
        raise RequestError(
            f"consistency must be at least 0 and finite, got {consistency!r}; 0 is cross-entropy alone"
        )
    return RoutedConsistency(sigmas, consistency=float(consistency)) if consistency else Routed(sigmas)


def _empty_routes(
    experts: Sequence[Scheme], groups: Mapping[int, Sequence[int]], counts: Sequence[int]
) -> Iterator[str]:
    """What it means for each route that no input takes."""
    for group in groups.values():
        for j in group:
            if not counts[j]:
                shared = any(counts[other] for other in group)
                yield f"no image took the route to expert {j} (sigma {experts[j].rule.largest_noise:g}): " + (
                    "the shared network was not trained at that noise, and may get worse there"
                    if shared
                    else "that expert was not fine-tuned"
                )


def routes_of(router: Smoothed, dataset: Dataset, *, n: int = 100, seed: int = 0) -> Routes:
    """(N,) which route most of `n` votes take, for every input."""
    check_votes(n)
    found: list[int] = []
    for first in range(0, len(dataset), ROUTED_TOGETHER):
        part = range(first, min(first + ROUTED_TOGETHER, len(dataset)))
        # Which route leads is asked, not whether it is shown to lead: any alpha will do.
        votes = router.predict(dataset.pixels(part), n=n, alpha=0.5, seed=seed, ids=part)
        found += [leading(vote.stages[0].counts)[0] for vote in votes]
    return np.array(found, dtype=np.int64)


def check_votes(n: int, name: str = "n") -> None:
    """Raise unless so many votes can decide a route."""
    if not is_whole(n) or n < FEWEST_VOTES:
        raise RequestError(f"{name} must be a whole number of votes, at least {FEWEST_VOTES}; got {n!r}")


def shared_networks(experts: Sequence[Scheme]) -> dict[int, list[int]]:
    """The routes that share a network, by the first of them; experts that cannot be fine-tuned are refused."""
    groups: dict[int, list[int]] = {}
    first: dict[tuple[int, int], int] = {}
    for j, expert in enumerate(experts):
        if not isinstance(expert, Smoothed):
            raise RequestError(
                f"expert {j} is a {type(expert).__name__}, and only Smoothed experts can be fine-tuned under the "
                "routed noise; a Dual among them is fine-tuned by itself, before it becomes an expert"
            )
        model = classifier_of(expert)
        if not isinstance(model, Classifier):
            raise RequestError(
                f"expert {j} is over a {type(model).__name__} that sigmax cannot rebuild, and so not fine-tune; "
                "register its architecture with sigmax.models.register and make it with sigmax.models.create"
            )
        groups.setdefault(first.setdefault((id(model), id(denoiser_of(expert))), j), []).append(j)
    return groups


def _check(dual: Dual, dataset: Dataset, settings: Settings, folder: Path, n: int) -> None:
    check_votes(n)
    settings.torch_device()
    assert isinstance(dual.rule, DualRule)
    if dual.rule.names:
        raise RequestError(
            "this router names classes itself and has one expert, so there are no routes to fine-tune experts for; "
            "train its networks with sigmax train classifier and build the system anew"
        )
    if dual.classes != len(dataset.classes):
        raise RequestError(
            f"the system tells {dual.classes} classes apart, but {dataset.name} has {len(dataset.classes)}; "
            "fine-tune on the data the experts were trained for"
        )
    dual.check(dataset.pixels([0]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"the folder {folder} cannot be made ({error.strerror}); choose another") from error


def _kept_routes(path: Path, router: Smoothed, dataset: Dataset, made_from: dict[str, Any]) -> Routes:
    """The routes in the file, or found now and kept there; those of another request are refused."""
    if not path.exists():
        asked: dict[str, int] = made_from["router"]
        routes = routes_of(router, dataset, n=asked["votes"], seed=asked["seed"])
        with written_whole(path) as draft:
            draft.write_text(json.dumps({**made_from, "routes": routes.tolist()}))
        return routes
    try:
        kept = json.loads(path.read_text())
        routes = np.array(kept.pop("routes"), dtype=np.int64)
        whole = routes.shape == (len(dataset),) and bool(((routes >= 0) & (routes < router.classes)).all())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to route the inputs again") from error
    refuse_other_plan(kept, made_from, f"{path} holds the routes of another request")
    if not whole:
        raise RequestError(f"{path} is damaged (not a route an input); delete it to route the inputs again")
    return routes


def _tune(
    experts: Sequence[Scheme],
    method: Routed,
    dataset: Dataset,
    routes: Routes,
    settings: Settings,
    *,
    out: Path,
    made_from: dict[str, Any],
    on_step: OnStep | None,
) -> Classifier:
    """The network that the experts share, trained on the inputs of their routes."""
    start, denoiser = classifier_of(experts[0]), denoiser_of(experts[0])
    assert isinstance(start, Classifier)
    noises = {expert.rule.largest_noise for expert in experts}

    def examples(device: torch.device) -> Examples:
        targets = np.stack([dataset.labels, routes], axis=1)
        return Examples(images(dataset, device), torch.from_numpy(targets).to(device))

    path = train_network(
        replace(start.description, sigma=noises.pop() if len(noises) == 1 else None),
        method,
        examples,
        settings,
        out=out,
        made_from={**made_from, "start": models.fingerprint(start), **told_of_denoiser(denoiser)},
        notes={"class_names": dataset.classes},
        start=start,
        behind=denoiser,
        on_step=on_step,
    )
    return models.load(path)[0]


def _over(network: Classifier, expert: Scheme) -> Smoothed:
    """The expert over another network, on the same device in the same precision."""
    assert isinstance(expert, Smoothed)
    assert isinstance(expert.rule, SmoothedRule)
    voter = expert.voters["base"]
    denoiser = denoiser_of(expert)
    return Smoothed(
        network if denoiser is None else Denoised(denoiser, network),
        sigma=expert.sigma,
        classes=expert.classes,
        bound=expert.rule.bound,
        device=voter.device,
        dtype=voter.dtype,
        compile=voter.compile,
        domain=expert.domain,
    )


def _shifted(on_step: OnStep | None, before: int, total: int) -> OnStep | None:
    """The same callback, counting on from the networks before."""
    return on_step and (lambda done, _: on_step(before + done, total))
