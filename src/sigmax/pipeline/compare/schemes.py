"""The schemes of a comparison, over networks and training images that are read once for all of them."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sigmax import data as sources
from sigmax import models
from sigmax.config.validation import inside
from sigmax.pipeline.compare.config import CompareConfig
from sigmax.pipeline.compare.kinds import Ingredients, NetworkScheme, SystemScheme
from sigmax.schemes.scheme import Scheme
from sigmax.systems.folder import load_together
from sigmax.systems.networks import parts_of


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
        for name, scheme in self.config.schemes.items():
            if isinstance(scheme, NetworkScheme):
                with inside(f"schemes.{name}"):
                    found[name] = self._made(scheme)
        return {name: found[name] for name in self.config.schemes}

    def _systems(self) -> dict[str, Scheme]:
        folders = {name: s.folder for name, s in self.config.schemes.items() if isinstance(s, SystemScheme)}
        found = load_together(list(folders.values()), **self.how)
        for scheme in found:
            for part in parts_of(scheme).values():
                if isinstance(part, nn.Module):
                    self._networks.setdefault(models.fingerprint(part), part)
        return dict(zip(folders, found, strict=True))

    def _made(self, scheme: NetworkScheme) -> Scheme:
        networks = [self._network(path) for path in self.config.checkpoints(scheme)]
        return scheme.built(Ingredients(networks, self.how, lambda: self._points))

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
