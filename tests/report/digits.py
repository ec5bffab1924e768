"""Runs of real networks on real digits: the nearest mean smoothed three ways, routed by how dark an image is."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sigmax as sx
from sigmax.jobs.certify import certify_run
from sigmax.records.run import Run
from sigmax.schemes.scheme import Scheme

INPUTS, N0, N = 40, 20, 500
SYSTEMS = ("low", "mid", "high", "exact", "consensus", "min", "inner", "tree", "with-exact")


def digits_run(name: str, folder: Path) -> Run:
    test = sx.data.load("digits", "test")
    return certify_run(system(name), test, folder / f"{name}.jsonl", n0=N0, n=N, maximum=INPUTS)


def system(name: str) -> Scheme:
    means, darkness = _means()
    nearest = linear(means, -(means**2).sum(1) / 2)
    sigmas = {"low": 0.1, "mid": 0.2, "high": 0.4}
    if name in sigmas:
        return sx.Smoothed(nearest, sigma=sigmas[name], classes=10)
    if name == "exact":
        return sx.Lipschitz(nearest, 1.001 * float(torch.linalg.matrix_norm(means.double(), 2)), classes=10)
    if name == "cascade":
        confident = sx.models.selective(linear(30 * means, -15 * (means**2).sum(1)), confidence=0.7)
        return sx.Cascade([sx.Smoothed(confident, sigma=0.4, classes=10)], last=system("low"))
    pairs = {"inner": ("mid", "high"), "tree": ("low", "inner"), "with-exact": ("exact", "high")}
    experts = [system(expert) for expert in pairs.get(name, sigmas)]
    return sx.Dual(router(darkness, len(experts)), experts, rule="consensus" if name in pairs else name)


def router(darkness: Tensor, routes: int) -> sx.Smoothed:
    """Equally many training images to each route."""
    cuts = torch.quantile(darkness, torch.arange(1, routes) / routes)
    slopes = 3 * torch.arange(routes)[:, None] * torch.ones(1, 64) / 8
    network = linear(slopes, torch.cat([torch.zeros(1), -3 * cuts.cumsum(0)]))
    return sx.Smoothed(network, sigma=0.4, classes=routes)


def linear(weight: Tensor, bias: Tensor) -> nn.Module:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data, layer.bias.data = weight.clone(), bias.clone()
    return nn.Sequential(nn.Flatten(), layer).eval()


def _means() -> tuple[Tensor, Tensor]:
    """The mean image of each class, and how dark every training image is (along the direction of all ones)."""
    train = sx.data.load("digits", "train")
    pixels = torch.tensor(np.asarray(train.pixels(range(len(train))))).flatten(1)
    labels = torch.tensor(np.asarray(train.labels))
    return torch.stack([pixels[labels == c].mean(0) for c in range(10)]), pixels.sum(1) / 8


def adaptive_run(of: str, path: Path, **question: Any) -> Run:
    """The system `of` certified on the same digits with sampling that may stop early."""
    test = sx.data.load("digits", "test")
    return certify_run(system(of), test, path, n0=N0, n=2 * N, maximum=INPUTS, sampling="adaptive", **question)
