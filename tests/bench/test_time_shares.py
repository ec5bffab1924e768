"""How much of a vote's time the denoiser takes, and how much the classifier."""

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.bench import time_shares as bench
from sigmax.bench.time_shares import time_shares

X = torch.rand(3, 1, 8, 8)


class Clock:
    """A clock that only the networks below move, so that other work on the machine does not count."""

    now = 0.0

    @staticmethod
    def perf_counter():
        return Clock.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(bench, "time", Clock)


class Slow(nn.Module):
    """Takes its time, and returns what the shape asks for."""

    takes_sigma = False

    def __init__(self, seconds, classes=None):
        super().__init__()
        self.seconds, self.classes, self.seen = seconds, classes, []

    def forward(self, images):
        Clock.now += self.seconds
        self.seen.append(images.dtype if self.classes is None else torch.is_autocast_enabled("cpu"))
        return images if self.classes is None else images.flatten(1)[:, : self.classes]


def test_the_shares_are_those_of_the_seconds():
    pair = sx.Denoised(Slow(0.006), Slow(0.002, classes=10))
    ((name, found),) = time_shares(sx.Smoothed(pair, sigma=0.5, classes=10), X).items()
    assert name == "base"
    assert list(found) == ["denoiser", "classifier"]
    assert sum(found.values()) == pytest.approx(1)
    assert found["denoiser"] == pytest.approx(0.75)


def test_parts_run_in_the_precision_of_the_votes():
    pair = sx.Denoised(Slow(0.001), Slow(0.001, classes=10))
    time_shares(sx.Smoothed(pair, sigma=0.5, classes=10, dtype=torch.bfloat16), X)
    assert set(pair.classifier.seen) == {True}
    time_shares(sx.Smoothed(pair, sigma=0.5, classes=10), X)
    assert pair.classifier.seen[-1] is False


def test_every_network_that_denoises_is_measured_and_no_other():
    denoiser = Slow(0.001)
    pair = sx.Denoised(denoiser, Slow(0.001, classes=10))
    experts = [
        sx.Smoothed(pair, sigma=0.25, classes=10),
        sx.Smoothed(pair, sigma=0.5, classes=10),
        sx.Smoothed(Slow(0.001, classes=10), sigma=0.5, classes=10),
    ]
    router = sx.Smoothed(sx.Denoised(denoiser, Slow(0.001, classes=3)), sigma=0.5, classes=3)
    found = time_shares(sx.Dual(router, experts), X)
    assert list(found) == ["router/base", "expert-0/base", "expert-1/base"]
    multiscale = sx.Multiscale(pair, sigmas=(0.25, 0.5), classes=10)
    assert list(time_shares(multiscale, X)) == ["level-0/base", "last/base"]
    assert not time_shares(sx.Smoothed(Slow(0.001, classes=10), sigma=0.5, classes=10), X)
