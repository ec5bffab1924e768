"""Fine-tune the experts of a dual system under the noise its router gives each input.

Source: Dual randomized smoothing (Sun et al. 2026), Sec. 5.2.2, whose experts are one network for all noise levels.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models import Classifier, Denoised
from sigmax.noise.addressed import check_uint64
from sigmax.numbers import is_whole
from sigmax.progress import counting_on, shown
from sigmax.radius.noise import Gaussian
from sigmax.request import refuse_other
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.dual import Dual
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.systems.folder import fingerprint
from sigmax.train.denoised import classifier_of, denoiser_of
from sigmax.train.loop.network import examples_of, sources_of, train_network
from sigmax.train.loop.progress import OnStep
from sigmax.train.loop.quick_check import votes_of
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.several_noises import Routed, RoutedConsistency

FINE_TUNING = Settings(  # the paper's, on CIFAR-10; it names no schedule
    epochs=15, batch=128, optimiser="adamw", lr=2e-5, weight_decay=0.01, schedule="constant"
)
FEWEST_VOTES = 2  # a prediction, where the votes come from, needs as many
ROUTES = "routes.json"
Routes = NDArray[np.int64]


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

    `n` votes decide each input's route. Routes and new networks are kept in `folder`, and resumed as `train_classifier`
    says. Of experts that denoise first the classifier alone is tuned, on denoised images. Experts whose route no input
    takes stay as they are, and `on_warning` says so; `on_routes` gets the number of inputs of each route.
    consistency: weight of agreement between two noisy copies of an input; a batch then holds two of half as many
    inputs.
    """
    settings, folder = settings or FINE_TUNING, Path(folder)
    groups = shared_networks(dual.experts)
    method = _method(tuple(expert.rule.largest_noise for expert in dual.experts), consistency)
    _check(dual, dataset, settings, folder, n)
    sources = {
        **sources_of(dataset),
        "router": {"system": fingerprint(dual.router), "votes": int(n), "seed": check_uint64("seed", seed)},
    }
    routes = _kept_routes(folder / ROUTES, dual.router, dataset, sources)
    counts = np.bincount(routes, minlength=len(dual.experts)).tolist()
    if on_routes is not None:
        on_routes(counts)
    if on_warning is not None:
        for warning in _empty_routes(dual.experts, groups, counts):
            on_warning(warning)
    # Which inputs go where depends on a machine's last bits: the networks' plans hold on to it.
    sources["routes"] = hashlib.sha256(routes.astype("<i8").tobytes()).hexdigest()[:32]
    taken = {first: np.flatnonzero(np.isin(routes, group)) for first, group in groups.items()}
    together = method.images(settings.batch)
    steps = {first: settings.epochs * math.ceil(len(inputs) / together) for first, inputs in taken.items()}
    experts, before = list(dual.experts), 0
    with shown(on_step, f"finetune {folder.name}") as advance:
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
                sources={**sources, "of_routes": group},
                on_step=counting_on(advance, before, sum(steps.values())),
            )
            for j in group:
                experts[j] = _over(network, dual.experts[j])
            before += steps[first]
    return Dual(dual.router, experts, rule=dual.combination)


def check_tuning(settings: Settings, consistency: float) -> None:
    """Raise unless experts can be fine-tuned like this, whichever they are."""
    _method((), consistency).images(settings.batch)


def _method(sigmas: tuple[float, ...], consistency: float) -> Routed:
    return RoutedConsistency(sigmas, consistency=float(consistency)) if consistency else Routed(sigmas)


def _empty_routes(
    experts: Sequence[Scheme], groups: Mapping[int, Sequence[int]], counts: Sequence[int]
) -> Iterator[str]:
    """A warning for each route that no input takes."""
    for j, shared in ((j, group) for group in groups.values() for j in group if not counts[j]):
        yield f"no image took the route to expert {j} (sigma {experts[j].rule.largest_noise:g}): " + (
            "the shared network was not trained at that noise, and may get worse there"
            if any(counts[other] for other in shared)
            else "that expert was not fine-tuned"
        )


def routes_of(router: Smoothed, dataset: Dataset, *, n: int = 100, seed: int = 0) -> Routes:
    """(N,) which route most of `n` votes take, for every input."""
    routes: Routes = votes_of(router, dataset, np.arange(len(dataset)), n=n, seed=seed).argmax(axis=1)
    return routes


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
        if not isinstance(expert.noise, Gaussian):
            raise RequestError(
                f"expert {j} votes under {expert.noise.name} noise, and fine-tuning trains under Gaussian noise alone; "
                "train its network longer instead"
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
    if not is_whole(n) or n < FEWEST_VOTES:
        raise RequestError(f"n: expected a whole number of at least {FEWEST_VOTES} votes, got {n!r}")
    settings.torch_device()
    dataset.needed_labels("fine-tuning")
    if dual.classes != len(dataset.classes):
        raise RequestError(
            f"the system has {dual.classes} classes, and {dataset.name} has {len(dataset.classes)}; "
            "fine-tune on the data the experts were trained for"
        )
    dual.check(dataset.pixels([0]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"the folder {folder} cannot be made ({error.strerror}); choose another") from error


def _kept_routes(path: Path, router: Smoothed, dataset: Dataset, sources: dict[str, Any]) -> Routes:
    """The routes in the file, or found now and kept there; those of another request are refused."""
    if not path.exists():
        asked: dict[str, int] = sources["router"]
        routes = routes_of(router, dataset, n=asked["votes"], seed=asked["seed"])
        with written_whole(path) as draft:
            draft.write_text(json.dumps({**sources, "routes": routes.tolist()}))
        return routes
    try:
        kept = json.loads(path.read_text())
        routes = np.array(kept.pop("routes"), dtype=np.int64)
        whole = routes.shape == (len(dataset),) and bool(((routes >= 0) & (routes < router.classes)).all())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); delete it to route the inputs again") from error
    refuse_other(kept, sources, f"{path} holds the routes of another request")
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
    sources: dict[str, Any],
    on_step: OnStep,
) -> Classifier:
    """The network that the experts share, trained on the inputs of their routes."""
    start, denoiser = classifier_of(experts[0]), denoiser_of(experts[0])
    assert isinstance(start, Classifier)
    noises = {expert.rule.largest_noise for expert in experts}

    path = train_network(
        replace(start.description, sigma=noises.pop() if len(noises) == 1 else None),
        method,
        examples_of(dataset, np.stack([dataset.needed_labels("fine-tuning"), routes], axis=1)),
        settings,
        out=out,
        sources={**sources_of(dataset, start=start, denoiser=denoiser), **sources},
        notes={"class_names": dataset.classes},
        start=start,
        denoiser=denoiser,
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
        noise=expert.noise,
        classes=expert.classes,
        bound=expert.rule.bound,
        device=voter.device,
        dtype=voter.dtype,
        compile=voter.compile,
        domain=expert.domain,
    )
