from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax.models import Normalised
from sigmax.train import Batch, GaussianTraining, noisy_copies


class Spy(nn.Module):
    """Keeps what it was given and answers ten logits."""

    def forward(self, images):
        self.seen = images
        return images.flatten(1)[:, :10]


def batch(pixels, seed=0):
    targets = torch.arange(len(pixels)) % 10
    return Batch(pixels, targets, torch.arange(len(pixels)), 0, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0])
def test_noise_has_standard_deviation_sigma_and_is_not_clamped(sigma):
    pixels = torch.rand(400, 3, 16, 16)
    noise = noisy_copies(pixels, sigma, 1, torch.Generator().manual_seed(0)) - pixels
    # 307,200 samples: three standard errors of the standard deviation are 0.4% of it.
    assert noise.std().item() == pytest.approx(sigma, rel=0.004)
    assert abs(noise.mean().item()) < 0.006 * sigma
    assert noise.abs().max() > 4 * sigma
    tails = (noise.abs() > 2 * sigma).float().mean().item()
    assert tails == pytest.approx(0.0455, abs=0.002)


def test_noise_is_added_before_normalisation():
    """On the pixel scale the network's input differs from the clean one by sigma, on its own by sigma / std."""
    spy = Spy()
    pixels = torch.rand(200, 1, 16, 16)
    GaussianTraining(0.5).score(Normalised(spy, (0.3,), (0.2,)), batch(pixels))
    noise = spy.seen - (pixels - 0.3) / 0.2
    assert noise.std().item() == pytest.approx(0.5 / 0.2, rel=0.02)


def test_the_loss_is_the_cross_entropy_of_the_noisy_inputs():
    spy = Spy()
    given = batch(torch.rand(32, 1, 8, 8))
    loss, accuracy = GaussianTraining(0.25).score(spy, given)
    logits = spy.seen.flatten(1)[:, :10]
    assert loss.item() == pytest.approx(functional.cross_entropy(logits, given.targets).item())
    assert accuracy.item() == pytest.approx((logits.argmax(1) == given.targets).float().mean().item())


def test_copies_and_a_sigma_for_each_image():
    """Literal: every image, copy by copy, with its own noise."""
    spy = Spy()
    given = batch(torch.rand(6, 1, 8, 8, dtype=torch.float64))
    own = torch.tensor([0.0, 0.1, 0.2, 0.5, 1.0, 2.0], dtype=torch.float64)
    loss, accuracy = GaussianTraining(0.25, copies=3).score(spy, replace(given, sigma=own))
    noise = torch.randn(3, 6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    losses, right = [], []
    for copy in range(3):
        for image in range(6):
            logits = (given.pixels[image] + own[image] * noise[copy, image]).flatten()[:10]
            losses.append(-logits.log_softmax(0)[given.targets[image]].item())
            right.append(logits.argmax().item() == given.targets[image].item())
    assert loss.item() == pytest.approx(sum(losses) / 18, abs=1e-12)
    assert accuracy.item() == pytest.approx(sum(right) / 18)
    assert spy.seen.shape == (18, 1, 8, 8)


def test_sigma_zero_is_plain_training():
    spy = Spy()
    pixels = torch.rand(4, 1, 8, 8)
    GaussianTraining(0.0).score(spy, batch(pixels))
    assert torch.equal(spy.seen, pixels)
