"""The cascade of a pipeline: answers on the images held out, thresholds calibrated on them, the Cascade itself."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from sigmax import models
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.pipeline.phase import Phase
from sigmax.progress import Watch, silent
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.calibrate import Answers, Certain, Estimate, chosen, kept_answers, read_thresholds, write_thresholds

ANSWERED = ("calibrate.samples", "certify.seed", "certify.dtype")  # what answers depend on, beside their network
CERTIFIED = ("certify.dtype",)  # the same of a deterministic expert, which certifies them
CALIBRATED = ("n", "alpha", "seed", "dtype")  # of the certificates to come: what thresholds are chosen for


@dataclass(frozen=True)
class Cascades:
    """The experts as levels: the one of largest sigma first, the one of smallest sigma last."""

    config: PipelineConfig
    data: PipelineData
    experts: Callable[[Mapping[str, Any]], list[Scheme]]  # to vote like this
    network: Callable[[int], models.Classifier]  # of an expert, as it is kept
    names: list[str]  # of the experts, as they are called in files

    @property
    def file(self) -> Path:
        """Where the thresholds are kept."""
        return self.config.out / "thresholds.json"

    def answers(self, place: int) -> Path:
        """Where the answers of an expert to the images held out are kept."""
        return self.config.out / "answers" / f"{self.names[place]}.npz"

    def phases(self, depends: tuple[str, ...], depends_of: Callable[[str], tuple[str, ...]]) -> Iterator[Phase]:
        """The calibration, if any; `depends`: what the experts are decided by, and `depends_of` one of them."""
        if self.config.cascade is None or self.config.calibrate is None:
            return
        for place, name in enumerate(self.names):
            file = self.answers(place)
            random = self.config.experts.rule_of(place).is_random
            decided = (*depends_of(name), *(ANSWERED if random else CERTIFIED))
            yield Phase(f"calibration outputs of {name}", (file,), partial(self._answer, place), file.is_file, decided)
        yield Phase("calibrate", (self.file,), self._calibrate, self.file.is_file, (*depends, *self.depends))

    @property
    def depends(self) -> tuple[str, ...]:
        """The keys that decide the cascade, beside those of its experts."""
        calibrated = ("calibrate", *(f"certify.{name}" for name in CALIBRATED))
        return ("cascade", *(calibrated if self.config.calibrate is not None else ()))

    def system(self, experts: list[Scheme], how: Mapping[str, Any]) -> Cascade:
        """The cascade over these experts with the thresholds given or chosen."""
        assert self.config.cascade is not None
        last, *rest = experts
        given, levels = self.config.cascade.confidence, list[Smoothed]()
        confidence = given if isinstance(given, tuple) else (given,) * len(rest)
        if self.config.calibrate is not None:
            confidence = read_thresholds(self.file, self._request()).confidence
        for place, threshold in zip(range(len(rest), 0, -1), confidence, strict=True):
            # Of one network for all there is to be one in memory, and one file in the system's folder.
            one = last.voters["base"].model if self.config.experts.one_network else None
            network: nn.Module = one if isinstance(one, nn.Module) else self.network(place)
            if threshold:  # else it never defers
                network = models.selective(network, confidence=threshold)
            rule = self.config.experts.rule_of(place, last.classes)
            assert isinstance(rule, SmoothedRule)
            levels.append(Smoothed(network, noise=rule.noise, classes=last.classes, **how))
        return Cascade(levels, last, thresholds=self.config.cascade.thresholds)

    def _answer(self, place: int, watch: Watch) -> None:
        """Ask an expert for its answers, unless that is done; those of another request are refused."""
        self._answered(self._voting(), place, watch)

    def _voting(self) -> list[Scheme]:
        return self.experts(self.config.certify.how(self.config.device))

    def _answered(self, experts: list[Scheme], place: int, watch: Watch) -> Answers | Certain:
        config, expert = self.config, experts[place]
        assert config.calibrate is not None
        how = {"samples": config.calibrate.samples, "seed": config.certify.seed}
        return kept_answers(self.answers(place), expert, self.data.held_out, **how, watch=watch)

    def _calibrate(self, watch: Watch) -> None:
        """Choose the thresholds, unless that is done; those of another request are refused."""
        config, request, held_out = self.config, self._request(), self.data.held_out
        assert config.calibrate is not None
        if self.file.is_file():
            read_thresholds(self.file, request)
            return
        watch(0, 1)
        experts = self._voting()
        answers = tuple(self._answered(experts, place, silent) for place in reversed(range(len(experts))))
        rule, labels = config.cascade_rule(len(held_out.classes)), held_out.needed_labels("calibration")
        estimate = Estimate(rule, answers, labels, n=config.certify.n, alpha=config.certify.alpha)
        write_thresholds(self.file, chosen(estimate, config.calibrate), request)
        watch(1, 1)

    def _request(self) -> dict[str, Any]:
        """All that the choice depends on."""
        config = self.config
        assert config.calibrate is not None
        networks = [models.fingerprint(self.network(place)) for place in range(config.experts.count)]
        said = {
            **config.calibrate.model_dump(),
            "rule": config.cascade_rule(len(self.data.held_out.classes)).describe(),
            "networks": networks,
            "images": self.data.held_out.fingerprint,
            "certify": {name: getattr(config.certify, name) for name in CALIBRATED},
        }
        plain: dict[str, Any] = json.loads(json.dumps(said))
        return plain
