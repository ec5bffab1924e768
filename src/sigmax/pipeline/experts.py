"""The experts of a pipeline as they are at first: trained here, or given as systems."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sigmax import models
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.pipeline.phase import Phase, saved
from sigmax.progress import Watch
from sigmax.rules.smoothed import SmoothedRule
from sigmax.rules.splitting import SplittingRule
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.schemes.splitting import Splitting
from sigmax.systems.folder import HEAD, fingerprint, load_together
from sigmax.train.classifier import train_classifier
from sigmax.train.loop.noisy import NoiseName
from sigmax.train.methods.base import Method
from sigmax.train.methods.registry import make_method
from sigmax.train.methods.several_noises import mixed

Trained = tuple[NoiseName, float]  # a noise and its level


@dataclass(frozen=True)
class Experts:
    """Fold -1 is the final experts; fold k >= 0 those that never see the images of fold k, and label them."""

    config: PipelineConfig
    data: PipelineData

    @cached_property
    def names(self) -> list[str]:
        """What the experts are called in files and tables."""
        return self.config.experts.names

    @property
    def depends(self) -> tuple[str, ...]:
        """The keys that decide what the final experts are."""
        return (*self._training_images, "experts", "store")

    def depends_of(self, name: str) -> tuple[str, ...]:
        """The keys that decide what one of them is; others may join or leave it, unless they are one network."""
        if self.config.experts.systems or self.config.experts.one_network:
            return self.depends
        shared = ("model", "normalise", "one_network", "bound", "grid", "training")
        return (*self._training_images, "store", f"expert.{name}", *(f"experts.{key}" for key in shared))

    @property
    def _training_images(self) -> tuple[str, ...]:
        aside = ("labels.held_out", "labels.sample_seed") if self.config.labels.held_out else ()
        return ("data.held_out", "data.train_images", *aside)

    @cached_property
    def given(self) -> list[str]:
        """Fingerprints of the systems that exist and are the experts."""
        return [fingerprint(expert) for expert in self.load({"device": "cpu"})] if self.config.experts.systems else []

    def load(self, how: Mapping[str, Any], fold: int = -1) -> list[Scheme]:
        """The experts, to vote like this."""
        return load_together(self._folders(fold), **how)

    def network(self, place: int) -> models.Classifier:
        """What an expert was trained as, before any fine-tuning, with its weights as they are kept."""
        name = "experts" if self.config.experts.one_network else self.names[place]
        network, _ = models.load(self.config.out / "nets" / f"{name}.safetensors")
        if self.config.store == "bf16":
            models.round_weights(network)
        return network

    def phases(self) -> Iterator[Phase]:
        """The trainings: the final experts first, then those of each fold."""
        if self.config.experts.systems:
            return
        yield from self._trainings(-1)
        if self.config.labels.folds > 1:
            for fold in range(self.config.labels.folds):
                yield from self._trainings(fold)

    def _folders(self, fold: int) -> list[str | Path]:
        if self.config.experts.systems:
            return list(self.config.experts.systems)
        return [self.config.out / "experts" / _inside_fold(fold) / name for name in self.names]

    def _trainings(self, fold: int) -> Iterator[Phase]:
        experts, folders = self.config.experts, [Path(folder) for folder in self._folders(fold)]
        if experts.one_network:
            method, _, hyper = experts.method_of(0)

            def made(_: float) -> Method:  # the largest level, which is one of them
                return mixed(method, experts.levels, hyper, experts.noise)

            yield self._phase("experts", dict(zip(folders, experts.trained, strict=True)), made, fold=fold, place=0)
            return
        for place, (name, own, folder) in enumerate(zip(self.names, experts.trained, folders, strict=True)):
            method, _, hyper = experts.method_of(place)
            made = partial(make_method, method, hyper=hyper, noise=own[0])
            yield self._phase(name, {folder: own}, made, fold=fold, place=place)

    def _phase(
        self, name: str, systems: Mapping[Path, Trained], method: Callable[[float], Method], *, fold: int, place: int
    ) -> Phase:
        """One network, smoothed with each of its noises in the folders of the experts that it serves."""
        network = self.config.out / "nets" / _inside_fold(fold) / f"{name}.safetensors"
        files, depends = [network, *(folder / HEAD for folder in systems)], self.depends_of(name)
        if fold >= 0:
            name, depends = f"{name} without fold {fold}", (*depends, "labels.folds", "labels.sample_seed")
        work = partial(self._train, network, systems, method, fold=fold, place=place)
        finished = lambda: all(file.is_file() for file in files)  # noqa: E731
        return Phase(f"train {name}", (network, *systems), work, finished, depends)

    def _train(
        self,
        network: Path,
        systems: Mapping[Path, Trained],
        method: Callable[[float], Method],
        watch: Watch,
        *,
        fold: int,
        place: int,
    ) -> None:
        experts = self.config.experts
        described, start = experts.network_of(place), experts.start_of(place)
        train_classifier(
            self.data.taught if fold < 0 else self.data.without_fold(fold),
            architecture=described.model,
            options=described.options,
            normalisation=described.normalise,
            start=None if start is None else models.load(start)[0],
            sigma=max(level for _, level in systems.values()),
            noise=next(iter(systems.values()))[0],
            settings=experts.training_of(place),
            out=network,
            method=method,
            on_step=watch,
        )
        model, description = models.load(network)
        for folder, own in systems.items():
            rule = experts.rule_of(experts.trained.index(own), description.classes)
            expert: Scheme
            if isinstance(rule, SplittingRule):
                expert = Splitting(model, noise=rule.noise, classes=rule.classes)
            else:
                assert isinstance(rule, SmoothedRule)
                expert = Smoothed(model, noise=rule.noise, classes=rule.classes, bound=experts.bound)
            saved(expert, folder, self.config.store)


def _inside_fold(fold: int) -> str:
    return "" if fold < 0 else f"fold-{fold}"
