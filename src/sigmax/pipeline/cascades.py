"""The cascade of a pipeline: confidence thresholds calibrated on the images held out, and the Cascade itself."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from sigmax import models
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.pipeline.phase import Advance, Phase
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.calibrate import calibrate, read_thresholds, write_thresholds

CALIBRATED = ("n", "alpha", "seed", "dtype")  # of the certificates to come: what thresholds are chosen for


@dataclass(frozen=True)
class Cascades:
    """The experts as levels: the one of largest sigma first, the one of smallest sigma last."""

    config: PipelineConfig
    data: PipelineData
    experts: Callable[[Mapping[str, Any]], list[Scheme]]  # to vote like this
    network: Callable[[int], models.Classifier]  # of an expert, as it is kept

    @property
    def file(self) -> Path:
        """Where the thresholds are kept."""
        return self.config.out / "thresholds.json"

    def phases(self, depends: tuple[str, ...]) -> Iterator[Phase]:
        """The calibration, if any; `depends`: what the experts are decided by."""
        if self.config.cascade is not None and self.config.calibrate is not None:
            yield Phase("calibrate", (self.file,), self._calibrate, self.file.is_file, (*depends, *self.depends))

    @property
    def depends(self) -> tuple[str, ...]:
        """The keys that decide the cascade, beside those of its experts."""
        calibrated = ("calibrate", *(f"certify.{name}" for name in CALIBRATED))
        return ("cascade", *(calibrated if self.config.calibrate is not None else ()))

    def system(self, experts: list[Scheme], how: Mapping[str, Any]) -> Cascade:
        """The cascade over these experts with the thresholds given or chosen."""
        config = self.config
        if config.calibrate is None:
            return self._built(experts, how, config.confidence)
        return self._built(experts, how, read_thresholds(self.file, self._request()).confidence)

    def _built(self, experts: list[Scheme], how: Mapping[str, Any], confidence: Sequence[float]) -> Cascade:
        assert self.config.cascade is not None
        last, *rest = experts
        levels = []
        for place, threshold in zip(range(len(rest), 0, -1), confidence, strict=True):
            network: nn.Module = self.network(place)
            if threshold:  # else it never defers
                network = models.selective(network, confidence=threshold)
            rule = self.config.experts.rule_of(place, last.classes)
            assert isinstance(rule, SmoothedRule)
            levels.append(Smoothed(network, noise=rule.noise, classes=last.classes, **how))
        return Cascade(levels, last, thresholds=self.config.cascade.thresholds)

    def _calibrate(self, watch: Advance) -> None:
        """Choose the thresholds, unless that is done; those of another request are refused."""
        config, request = self.config, self._request()
        assert config.calibrate is not None
        if self.file.is_file():
            read_thresholds(self.file, request)
            return
        how = config.certify.how(config.device)
        cascade = self._built(self.experts(how), how, config.confidence)
        said = {name: getattr(config.certify, name) for name in CALIBRATED if name != "dtype"}
        found = calibrate(cascade, self.data.held_out, config.calibrate, **said, watch=watch)
        write_thresholds(self.file, found, request)

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
