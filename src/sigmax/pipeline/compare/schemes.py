"""The schemes of a comparison, over networks and training images that are read once for all of them."""

from functools import cache

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
    """Every scheme by its name, in the file's order; what several of them use is one network, compiled once."""
    how, networks = config.how, dict[str, nn.Module]()  # by fingerprint
    # Systems are read first: their networks may be named by their files as well.
    folders = {name: s.folder for name, s in config.schemes.items() if isinstance(s, SystemScheme)}
    found = dict(zip(folders, load_together(list(folders.values()), **how), strict=True))
    for part in (part for scheme in found.values() for part in parts_of(scheme).values()):
        if isinstance(part, nn.Module):
            networks.setdefault(models.fingerprint(part), part)

    def network(path: str) -> models.Classifier:
        model, _ = models.load(path)
        known = networks.setdefault(models.fingerprint(model), model)
        assert isinstance(known, models.Classifier)  # the description is part of the fingerprint
        return known

    @cache
    def points() -> NDArray[np.float32]:
        """The training images: what any field of the file is measured from."""
        training = sources.load(config.data.source, config.data.train, size=config.data.image_size)
        return training.pixels(range(len(training)))

    for name, scheme in config.schemes.items():
        if isinstance(scheme, NetworkScheme):
            with inside(f"schemes.{name}"):
                found[name] = scheme.built(Ingredients(list(map(network, config.checkpoints(scheme))), how, points))
    return {name: found[name] for name in config.schemes}


def warm_up(scheme: Scheme, x: NDArray[np.float32]) -> None:
    """Votes that nobody counts: compilers and GPUs take their time at first, and a table compares seconds."""
    if all(voter.compile == "off" and voter.device.type == "cpu" for voter in scheme.voters.values()):
        return
    for name, voter in scheme.voters.items():  # an input alone need not come to every network
        if voter.votes:
            voter.vote(torch.from_numpy(x).expand(voter.batch, *x.shape[1:]), scheme.sigma_of(name))
    scheme.fresh().certify(x)
