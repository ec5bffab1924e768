"""How much of a vote's time the denoiser takes, and how much the classifier."""

import time

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.bench import stages as bench
from sigmax.bench.stages import stages

X = torch.rand(3, 1, 8, 8)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(bench, "SECONDS", 0.02)


class Slow(nn.Module):
    """Takes its time, and returns what the shape asks for."""

    takes_sigma = False

    def __init__(self, seconds, classes=None):
        super().__init__()
        self.seconds, self.classes, self.seen = seconds, classes, []

    def forward(self, images):
        time.sleep(self.seconds)
        self.seen.append(images.dtype if self.classes is None else torch.is_autocast_enabled("cpu"))
        return images if self.classes is None else images.flatten(1)[:, : self.classes]


def test_the_shares_are_those_of_the_seconds():
    pair = sx.Denoised(Slow(0.006), Slow(0.002, classes=10))
    ((name, found),) = stages(sx.Smoothed(pair, sigma=0.5, classes=10), X).items()
    assert name == "base"
    assert list(found) == ["denoiser", "classifier"]
    assert sum(found.values()) == pytest.approx(1)
    assert 0.6 < found["denoiser"] < 0.9


def test_parts_run_in_the_precision_of_the_votes():
    pair = sx.Denoised(Slow(0.0), Slow(0.0, classes=10))
    stages(sx.Smoothed(pair, sigma=0.5, classes=10, dtype=torch.bfloat16), X)
    assert set(pair.classifier.seen) == {True}
    stages(sx.Smoothed(pair, sigma=0.5, classes=10), X)
    assert pair.classifier.seen[-1] is False


def test_every_network_that_denoises_is_measured_and_no_other():
    denoiser = Slow(0.001)
    pair = sx.Denoised(denoiser, Slow(0.001, classes=10))
    experts = [
        sx.Smoothed(pair, sigma=0.25, classes=10),
        sx.Smoothed(pair, sigma=0.5, classes=10),
        sx.Smoothed(Slow(0.0, classes=10), sigma=0.5, classes=10),
    ]
    router = sx.Smoothed(sx.Denoised(denoiser, Slow(0.001, classes=3)), sigma=0.5, classes=3)
    found = stages(sx.Dual(router, experts), X)
    assert list(found) == ["router/base", "expert-0/base", "expert-1/base"]
    multiscale = sx.Multiscale(pair, sigmas=(0.25, 0.5), classes=10)
    assert list(stages(multiscale, X)) == ["scale-0/base", "scale-1/base"]
    assert not stages(sx.Smoothed(Slow(0.0, classes=10), sigma=0.5, classes=10), X)
