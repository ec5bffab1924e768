"""The experts of a pipeline as they are at first: trained here, or given as systems."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sigmax import models
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.system.folder import HEAD, load_together
from sigmax.train.classifier import train_classifier
from sigmax.train.finetune import Mixed
from sigmax.train.method import Method
from sigmax.train.methods import make_method
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_data import PipelineData
from sigmax.train.pipeline_files import saved
from sigmax.train.pipeline_phase import Advance, Phase


@dataclass(frozen=True)
class Experts:
    """Fold -1 is the final experts; fold k >= 0 those that never see the images of fold k, and label them."""

    config: PipelineConfig
    data: PipelineData

    @cached_property
    def names(self) -> list[str]:
        """What the experts are called in files and tables."""
        experts = self.config.experts
        if experts.systems:
            return [f"expert-{j}" for j in range(len(experts.systems))]
        return [f"sigma-{sigma!r}" for sigma in experts.sigmas]  # every digit: no two may share a file

    def load(self, how: Mapping[str, Any], fold: int = -1) -> list[Scheme]:
        """The experts, to vote like this."""
        return load_together(self._folders(fold), **how)

    def network(self, place: int) -> models.Classifier:
        """What an expert was trained as, before any fine-tuning."""
        name = "experts" if self.config.experts.one_network else self.names[place]
        return models.load(self.config.out / "nets" / f"{name}.safetensors")[0]

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
        experts, nets = self.config.experts, self.config.out / "nets" / _inside_fold(fold)
        folders = [Path(folder) for folder in self._folders(fold)]
        if experts.one_network:
            systems = dict(zip(folders, experts.sigmas, strict=True))
            yield self._training(
                "experts", nets / "experts.safetensors", systems, fold, lambda _: Mixed(experts.sigmas)
            )
            return
        for place, (name, sigma, folder) in enumerate(zip(self.names, experts.sigmas, folders, strict=True)):
            method, _, hyper = experts.method_of(place)
            made = partial(make_method, method, hyper=hyper)
            yield self._training(name, nets / f"{name}.safetensors", {folder: sigma}, fold, made)

    def _training(
        self, name: str, network: Path, systems: dict[Path, float], fold: int, method: Callable[[float], Method]
    ) -> Phase:
        """One network, smoothed with each of the sigmas."""
        files = [network, *(folder / HEAD for folder in systems)]
        work = partial(self._train, network, systems, fold, method)
        named = name if fold < 0 else f"{name} without fold {fold}"
        return Phase(f"train {named}", (network, *systems), work, lambda: all(file.is_file() for file in files))

    def _train(
        self,
        network: Path,
        systems: dict[Path, float],
        fold: int,
        method: Callable[[float], Method],
        watch: Advance,
    ) -> None:
        experts = self.config.experts
        train_classifier(
            self.data.taught if fold < 0 else self.data.without_fold(fold),
            architecture=experts.model,
            options=experts.options,
            normalisation=experts.normalise,
            sigma=max(systems.values()),
            settings=experts.training,
            out=network,
            method=method,
            on_step=watch,
        )
        model, description = models.load(network)
        for folder, sigma in systems.items():
            expert = Smoothed(model, sigma=sigma, classes=description.classes, bound=experts.bound)
            saved(expert, folder, self.config.store)


def _inside_fold(fold: int) -> str:
    return "" if fold < 0 else f"fold-{fold}"
