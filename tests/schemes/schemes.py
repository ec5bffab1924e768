"""The table of all schemes: how each is built over a network, and what is known of it on half-spaces.

A new scheme is tested by adding a row; see `test_every_scheme`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.schemes.scheme import Scheme

DIM = 16
GRID = 16  # of the digits, so that a multiple of it is one too


@dataclass(frozen=True)
class Row:
    """A scheme under test.

    build: from a network that returns scores (rows of a half-space's differ by its distance), and its classes.
    slack: on a half-space, by how much less than the distance to its edge the true radius is.
    stretch: how many times the l2 distance to the edge the one in its own norm is.
    """

    build: Callable[[nn.Module, int], Scheme]
    slack: float = 0.0
    stretch: float = 1.0
    least_samples: int = 40  # fewer are refused at alpha = 0.001; 0: it samples none
    may_be_expert: bool = True
    noise: bool = True
    saves: bool = True  # a folder can hold it
    known: bool = True  # what is true of it on half-spaces of any points


def smoothed(model, classes, sigma=0.5):
    return sx.Smoothed(model, sigma=sigma, classes=classes, batch=64)


class Router(nn.Module):
    """Two routes for any input, by its first number, so that no expert is left out."""

    fingerprint = "first number"

    def forward(self, batch):
        first = batch.flatten(1)[:, 0]
        return torch.stack([first, 0.25 - first], 1)


def dual(model, classes, rule):
    experts = [smoothed(model, classes, 0.25), smoothed(model, classes, 0.5)]
    router = registered(seed=1, classes=2) if isinstance(model, models.Classifier) else Router()
    return sx.Dual(smoothed(router, 2), experts, rule=rule)


def cascade(model, classes, **options):
    """Two selective levels over a last one; how confident a network is of a half-space grows with the distance."""
    confidence = 0.6 if classes == 2 else 0.5
    levels = [smoothed(models.selective(model, confidence=confidence), classes, sigma) for sigma in (1.0, 0.5)]
    return sx.Cascade(levels, smoothed(model, classes, 0.25), **options)


def multiscale(model, classes, **options):
    return sx.Multiscale(model, sigmas=(0.25, 0.5, 1.0), classes=classes, batch=64, **options)


def uniform(model, classes, scale=1.0):
    return sx.Smoothed(model, noise=sx.noise.Uniform(scale), classes=classes, batch=64)


def uniform_dual(model, classes):
    router = registered(seed=1, classes=2) if isinstance(model, models.Classifier) else Router()
    experts = [uniform(model, classes, 0.5), uniform(model, classes, 1.0)]
    return sx.Dual(uniform(router, 2), experts)


def uniform_cascade(model, classes):
    confidence = 0.6 if classes == 2 else 0.5
    levels = [uniform(models.selective(model, confidence=confidence), classes, scale) for scale in (2.0, 1.0)]
    return sx.Cascade(levels, uniform(model, classes, 0.5), thresholds=(0.6, 0.5))


def splitting(model, classes):
    return sx.Splitting(model, scale=0.4, grid=15 * GRID, classes=classes, batch=64)


def splitting_dual(model, classes):
    router = registered(seed=1, classes=2) if isinstance(model, models.Classifier) else Router()
    return sx.Dual(uniform(router, 2), [splitting(model, classes), uniform(model, classes)])


def splitting_cascade(model, classes):
    confidence = 0.6 if classes == 2 else 0.5
    level = uniform(models.selective(model, confidence=confidence), classes)
    return sx.Cascade([level], splitting(model, classes))


def elastic(model, classes, *, rate=0.02):
    """Noise that grows with the distance from some points, in the dimension of the half-space or the digits."""
    dim = DIM if classes == 2 else 64
    points = np.random.default_rng(0).random((200, dim), dtype=np.float32)
    offset = 16.0 if classes == 2 else 3.0
    field = sx.NearestNeighbourSigma(points, base=0.5, rate=rate, k=5, offset=offset)
    return sx.SemiElastic(model, field=field, classes=classes, batch=64)


def vouched(model, classes):
    """Noise by the first number alone, of which somebody says how fast it changes."""
    return sx.SemiElastic(
        model, field=sx.VouchedField(first_number, 0.05), classes=classes, dim=DIM if classes == 2 else 64, batch=64
    )


def first_number(batch):
    return 0.5 * torch.exp(0.05 * torch.sin(batch.flatten(1)[:, 0].double()))


def memorized(model, classes):
    sigma0 = 0.5 if classes == 2 else 0.2
    return sx.Memorized(model, sigma0=sigma0, classes=classes, search="grid", steps=5, noises=16, batch=64)


TABLE = {
    "smoothed": Row(smoothed),
    "dual-min": Row(lambda model, classes: dual(model, classes, "min")),
    "dual-consensus": Row(lambda model, classes: dual(model, classes, "consensus")),
    "cascade-selective": Row(cascade),
    "cascade-multiscale": Row(lambda model, classes: multiscale(model, classes, thresholds=(0.6, 0.7))),
    "uniform": Row(uniform, stretch=DIM**0.5),
    "uniform-dual": Row(uniform_dual, stretch=DIM**0.5),
    "uniform-cascade": Row(uniform_cascade, stretch=DIM**0.5),
    "splitting": Row(splitting, least_samples=0, known=False),
    "splitting-dual": Row(splitting_dual, known=False),
    "splitting-cascade": Row(splitting_cascade, known=False),
    "lipschitz": Row(lambda model, classes: sx.Lipschitz(model, 50.0, classes=classes), least_samples=0, noise=False),
    "semi-elastic": Row(elastic),
    "semi-elastic-vouched": Row(vouched, saves=False),
    "memorized": Row(memorized, may_be_expert=False),
}


class Halfspace(nn.Module):
    """Class 1 where the first numbers' mean direction is positive; the scores are 50-Lipschitz at most."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("normal", torch.ones(dim) / dim**0.5)

    def forward(self, batch):
        away = batch.flatten(1) @ self.normal
        return torch.stack([-away, away], 1)


def linear(classes: int = 10, scale: float = 3.0, seed: int = 0) -> nn.Module:
    """A network for the digits that is sure of some inputs and unsure of others."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
    with torch.no_grad():
        net[1].weight.mul_(scale)
    return net


def registered(seed: int = 0, classes: int = 10) -> nn.Module:
    """A network that a folder can hold."""
    torch.manual_seed(seed)
    described = models.Description(
        architecture="small-cnn", classes=classes, input_shape=(1, 8, 8), options={"width": 4}
    )
    return models.create(described)
