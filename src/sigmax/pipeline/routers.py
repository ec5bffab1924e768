"""The router of a pipeline: the labels that teach it, its training, and the Dual it makes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sigmax import models
from sigmax.jobs.label.labels import Labels, make_labels, read_labels
from sigmax.jobs.label.parts import joined
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import LabelPart, PipelineData
from sigmax.pipeline.phase import OnWarning, Phase, labelled
from sigmax.pipeline.tables import RouterConfig
from sigmax.progress import Watch
from sigmax.radius import Gaussian, Uniform
from sigmax.rules.routed.rule import Combination
from sigmax.schemes.composite import common_grid
from sigmax.schemes.dual import Dual
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.systems.folder import fingerprint
from sigmax.train.router.check import said_of_router
from sigmax.train.router.options import advice_on_collapse
from sigmax.train.router.train import train_router

# (fine-tunings, how networks vote, fold) -> the experts then
LoadExperts = Callable[[int, Mapping[str, Any], int], list[Scheme]]


@dataclass(frozen=True)
class Routers:
    """Everything about routers. `count`: which one, from 1; `tuned`: fine-tunings before it."""

    config: PipelineConfig
    data: PipelineData
    experts: LoadExperts
    network: Callable[[int], models.Classifier]  # that an expert was trained as, by its place
    on_warning: OnWarning | None = None
    on_note: OnWarning | None = None

    @property
    def how(self) -> RouterConfig:
        """How routers are trained."""
        assert self.config.router is not None
        return self.config.router

    def phases(self, count: int, tuned: int, depends: tuple[str, ...]) -> Iterator[Phase]:
        """Labels of the experts, then the router; `depends`: what the experts are decided by."""
        depends = (*depends, "labels")
        for part in self.data.parts(self._labels(count)):
            named = str(part.folder.relative_to(self.config.out))
            work, finished = partial(self._label, part, tuned), partial(labelled, part.folder)
            yield Phase(f"make {named}", (part.folder,), work, finished, depends)
        router = self._file(count)
        train = partial(self._train, count, tuned)
        yield Phase(f"train {router.stem}", (router,), train, router.is_file, (*depends, "router"))

    def system(self, rule: Combination, count: int, experts: Sequence[Scheme], how: Mapping[str, Any]) -> Dual:
        """A router over these experts."""
        model, _ = models.load(self._file(count))
        if self.config.store == "bf16":
            models.round_weights(model)
        grid = common_grid({str(place): expert for place, expert in enumerate(experts)})
        own = self.how.noise if isinstance(self.how.noise, Uniform) else Gaussian(self.how.noise.sigma, grid)
        return Dual(Smoothed(model, noise=own, classes=len(experts), **how), experts, rule=rule)

    def labels_of(self, count: int, tuned: int) -> Labels:
        """The labels that a router is trained on, as those of the final experts."""
        experts = self.experts(tuned, self.config.labels.how(self.config.device), -1)
        parts = self.data.parts(self._labels(count))
        found = [read_labels(part.folder) for part in parts]
        if parts[0].fold < 0:
            found[0].check(experts)
        if parts[0].indices is None:
            return found[0]
        places = [(part.indices, labels) for part, labels in zip(parts, found, strict=True) if part.indices is not None]
        return joined(self.data.train, places, [fingerprint(expert) for expert in experts])

    def _labels(self, count: int) -> Path:
        return self.config.out / f"labels-{count}"

    def _file(self, count: int) -> Path:
        return self.config.out / "nets" / f"router-{count}.safetensors"

    def _label(self, part: LabelPart, tuned: int, watch: Watch) -> None:
        labels = self.config.labels
        experts = self.experts(tuned, labels.how(self.config.device), part.fold)
        make_labels(experts, self.data.of(part), part.folder, **labels.request, watch=watch)

    def _train(self, count: int, tuned: int, watch: Watch) -> None:
        how, labels, done = self.how, self.labels_of(count, tuned), self._file(count).is_file()
        sigma = how.noise.sigma
        train_router(
            self.data.train,
            labels,
            architecture=how.model,
            options=how.options,
            normalisation=how.normalise,
            sigma=sigma,
            noise="gaussian" if isinstance(how.noise, Gaussian) else "uniform",
            start=None if how.start is None else self.network(how.start),
            settings=how.training,
            held_out=how.held_out,
            out=self._file(count),
            on_step=watch,
            on_warning=self.on_warning,
            **how.loss,
        )
        said = None if done else said_of_router(self._file(count), labels.sigmas, advice_on_collapse(sigma, how.loss))
        if said is not None and self.on_note is not None:
            self.on_note(f"router-{count}. {said[0]}")
        if said is not None and said[1] is not None and self.on_warning is not None:
            self.on_warning(f"router-{count}: {said[1]}")
