import math

import numpy as np
import pytest
import torch
from torch import nn

from sigmax.train.methods.base import Batch
from sigmax.train.methods.stability import Stability


def softmax(logits):
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def literal(weight, clean, noisy, target):
    """The formula for one input, term by term."""
    p, q = softmax(clean), softmax(noisy)
    return -math.log(p[target]) + weight * sum(-p[c] * math.log(q[c]) for c in range(len(p)))


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.0])
def test_the_loss_is_the_papers(weight):
    rng = np.random.default_rng(0)
    clean, noisy = rng.normal(0, 3, (2, 20, 5))
    targets = rng.integers(0, 5, 20)
    found = Stability(0.5, weight).losses(*map(torch.from_numpy, (clean, noisy, targets)))
    expected = [literal(weight, clean[i].tolist(), noisy[i].tolist(), targets[i]) for i in range(20)]
    assert found.tolist() == pytest.approx(expected, abs=1e-8, rel=0)


def test_gradients_flow_into_both_answers():
    generator = torch.Generator().manual_seed(0)
    clean, noisy = torch.randn(2, 6, 4, dtype=torch.float64, generator=generator)
    targets = torch.arange(6) % 4
    given = clean.requires_grad_(), noisy.requires_grad_()
    assert torch.autograd.gradcheck(lambda *both: Stability(0.5).losses(*both, targets), given)


class Spy(nn.Module):
    """Keeps what it was given and answers four logits."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(images)
        return images.flatten(1)[:, :4]


def batch(pixels, sigma=None, seed=0):
    targets = torch.arange(len(pixels)) % 4
    return Batch(pixels, targets, torch.arange(len(pixels)), 0, torch.Generator().manual_seed(seed), sigma)


def test_clean_inputs_pass_first_and_then_one_noisy_copy():
    spy, pixels = Spy(), torch.rand(50, 1, 8, 8)
    loss, accuracy = Stability(0.5).score(spy, batch(pixels))
    clean, noisy = spy.seen
    assert torch.equal(clean, pixels)
    assert (noisy - pixels).std().item() == pytest.approx(0.5, rel=0.05)
    logits, targets = noisy.flatten(1)[:, :4], torch.arange(50) % 4
    assert torch.equal(loss, Stability(0.5).losses(clean.flatten(1)[:, :4], logits, targets).mean())
    assert accuracy.item() == pytest.approx((logits.argmax(1) == targets).float().mean().item())
    assert torch.equal(loss, Stability(0.5).score(Spy(), batch(pixels)).loss)
    assert not torch.equal(loss, Stability(0.5).score(Spy(), batch(pixels, seed=1)).loss)
