"""Samplers by name: a second distribution needs a score, a sampler and nothing in the engine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.engine.fillers import CpuFiller, DeviceFiller
from sigmax.engine.inputs import Item, Noisy
from sigmax.engine.rounds import run
from sigmax.engine.voter import Voter
from sigmax.noise import philox
from sigmax.noise.gaussian import SAMPLER
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Square:
    name: ClassVar[str] = "square"
    norm: ClassVar[str] = "l1"
    sigma: float


class SquareSampler(sx.noise.Sampler):
    """Numbers from -1 to 1."""

    def fill(self, generator, out):
        generator.random(dtype=np.float32, out=out)
        out *= 2
        out -= 1

    def numbers(self, streams, samples, count):
        first, _ = philox.words(streams, samples, count)
        return torch.stack(first, dim=2).flatten(1)[:, :count].float() * (2 * philox.SCALE) - 1

    def kernel(self, rows):
        raise NotImplementedError


@pytest.fixture
def square(registrations_are_forgotten):
    sx.noise.register("square", SquareSampler())


def request(noise, n=256):
    return VoteRequest("", Role.ESTIMATION, 2, noise, n)


@pytest.mark.parametrize("sigma", [0.5, 0.1, 1 / 3, 0.86, 2.7])
def test_noise_is_scaled_and_added_in_two_roundings(sigma):
    """Each of 32 bits, as torch does it: a run may be continued, and its noise checked, by either."""
    samples, x = torch.randn(64, 3, 8, 8) * torch.logspace(-20, 3, 64).view(-1, 1, 1, 1), torch.rand(3, 8, 8)
    expected = samples.clone().mul_(sigma).add_(x)
    SAMPLER.add_to(x.numpy(), sx.noise.Gaussian(sigma), samples.numpy())
    assert torch.equal(samples, expected)


@pytest.mark.parametrize("kind", [CpuFiller, DeviceFiller])
def test_a_registered_distribution_fills_batches_scaled_and_added(square, kind):
    x, items = torch.rand(2, 3, 40), [Item(i, (request(Square(0.5 + i)),)) for i in range(2)]
    batch, rows = kind(Noisy(x, [0, 1], 0), items, 300, CPU).fill([(0, 0, 150), (1, 100, 250)])
    for i in range(2):
        noise = (batch[rows == i] - x[i]) / (0.5 + i)
        assert noise.abs().max() <= 1 + 1e-5
        assert noise.std().item() == pytest.approx(3**-0.5, rel=0.02)
    other = kind(Noisy(x, [0, 1], 0), items, 50, CPU).fill([(1, 120, 170)])[0]
    assert torch.equal(other, batch[170:220])  # in another batch the same noise


def test_a_batch_has_one_distribution(square):
    largest = []

    def model(batch):
        largest.append(batch.abs().max().item())
        return torch.zeros(len(batch), dtype=torch.long)

    def procedure(noise):
        counts = yield request(noise)
        return counts

    noises = [sx.noise.Gaussian(1.0), Square(1.0), sx.noise.Gaussian(0.5), Square(0.5)]
    inputs = Noisy(torch.zeros(4, 50), range(4), 0)
    found = dict(run([procedure(noise) for noise in noises], inputs, {"base": Voter(model, classes=2, batch=1024)}))
    assert found == dict.fromkeys(range(4), (256, 0))
    assert [bound <= 1 for bound in largest] == [False, True]


def test_a_name_has_one_sampler_and_an_unknown_one_is_refused():
    assert isinstance(sx.noise.sampler_of(sx.noise.Gaussian(0.5)), sx.noise.GaussianSampler)
    with pytest.raises(sx.RequestError, match="no sampler for the noise 'square'; known are: gaussian, uniform"):
        sx.noise.sampler_of(Square(0.5))
    with pytest.raises(sx.RequestError, match="has a sampler already"):
        sx.noise.register("gaussian", SquareSampler())


def test_sigma_is_short_for_gaussian_noise():
    net = torch.nn.Linear(4, 3)
    short, full = (sx.Smoothed(net, classes=3, **how) for how in ({"sigma": 0.5}, {"noise": sx.noise.Gaussian(0.5)}))
    x = torch.rand(2, 4)
    assert short.certify(x, n=200) == full.certify(x, n=200)
