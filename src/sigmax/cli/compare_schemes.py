"""The schemes of a comparison, over networks and training images that are read once for all of them."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sigmax import data as sources
from sigmax import models
from sigmax.certify.fields import NearestNeighbourSigma
from sigmax.certify.memorized import Memorized
from sigmax.certify.multiscale import Multiscale
from sigmax.certify.scheme import Scheme
from sigmax.certify.semi_elastic import SemiElastic
from sigmax.certify.smoothed import Smoothed
from sigmax.cli.compare_config import CompareConfig, SchemeConfig
from sigmax.system.folder import load_together
from sigmax.system.networks import parts_of
from sigmax.train.config_table import inside


def made_schemes(config: CompareConfig) -> dict[str, Scheme]:
    """Every scheme of the file by its name, in the file's order."""
    return _Workshop(config).schemes()


class _Workshop:
    """What several schemes use is one network in memory: it votes for all of them, and is compiled once."""

    def __init__(self, config: CompareConfig) -> None:
        self.config, self.how = config, config.how
        self._networks: dict[str, nn.Module] = {}  # by fingerprint

    def schemes(self) -> dict[str, Scheme]:
        """In the file's order. Systems are read first: their networks may be named by their files as well."""
        found = self._systems()
        for name, told in self.config.schemes.items():
            if told.kind != "system":
                with inside(f"schemes.{name}"):
                    found[name] = self._made(told)
        return {name: found[name] for name in self.config.schemes}

    def _systems(self) -> dict[str, Scheme]:
        names = [name for name, told in self.config.schemes.items() if told.kind == "system"]
        found = load_together([self.config.schemes[name].told["folder"] for name in names], **self.how)
        for scheme in found:
            for part in parts_of(scheme).values():
                if isinstance(part, nn.Module):
                    self._networks.setdefault(models.fingerprint(part), part)
        return dict(zip(names, found, strict=True))

    def _made(self, told: SchemeConfig) -> Scheme:
        networks = [self._network(path) for path in told.networks]
        options: dict[str, Any] = {**told.told, "classes": networks[0].description.classes, **self.how}
        if told.kind == "multiscale":
            if len(options.get("thresholds", ())) == 1:
                (options["thresholds"],) = options["thresholds"]
            return Multiscale(networks if len(networks) > 1 else networks[0], **options)
        if told.kind == "semi-elastic":
            field = {name: options.pop(name) for name in ("base", "rate", "k", "offset")}
            points = self._points[: options.pop("points", None)]
            return SemiElastic(networks[0], field=NearestNeighbourSigma(points, **field), **options)
        kinds: dict[str, type[Smoothed] | type[Memorized]] = {"smoothed": Smoothed, "memorized": Memorized}
        return kinds[told.kind](networks[0], **options)

    def _network(self, path: str) -> models.Classifier:
        model, _ = models.load(path)
        known = self._networks.setdefault(models.fingerprint(model), model)
        assert isinstance(known, models.Classifier)  # the description is part of the fingerprint
        return known

    @cached_property
    def _points(self) -> NDArray[np.float32]:
        """The training images: what any field of the file is measured from."""
        data = self.config.data
        training = sources.load(data.source, data.train, size=data.image_size)
        return training.pixels(range(len(training)))


def warm_up(scheme: Scheme, x: NDArray[np.float32]) -> None:
    """Votes that nobody counts: compilers and GPUs take their time at first, and a table compares seconds."""
    if all(voter.compile == "off" and voter.device.type == "cpu" for voter in scheme.voters.values()):
        return
    for name, voter in scheme.voters.items():  # an input alone need not come to every network
        if voter.votes:
            voter.vote(torch.from_numpy(x).expand(voter.batch, *x.shape[1:]), scheme.sigma_of(name))
    scheme.fresh().certify(x)
