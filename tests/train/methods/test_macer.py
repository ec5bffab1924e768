import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import nn

from sigmax.train.methods.base import Batch
from sigmax.train.methods.macer import Macer


def softmax(logits, beta=1.0):
    total = sum(math.exp(beta * z) for z in logits)
    return [math.exp(beta * z) / total for z in logits]


def literal(method, sigma, logits, target):
    """The formula for one input, term by term: logits[k][c] of its copies. And whether the hinge keeps it."""
    classes, copies = range(len(logits[0])), len(logits)
    z = [sum(softmax(row)[c] for row in logits) / copies for c in classes]
    sharp = [sum(softmax(row, method.beta)[c] for row in logits) / copies for c in classes]
    loss = -math.log(z[target])
    best = max(classes, key=lambda c: sharp[c])
    second = max(sharp[c] for c in classes if c != best)
    xi = NormalDist().inv_cdf(second) - NormalDist().inv_cdf(sharp[best])
    kept = best == target and abs(xi) <= method.gamma
    if kept:
        loss += method.weight * sigma / 2 * (method.gamma + xi)
    return loss, kept


class Given(nn.Module):
    """Answers logits that were thought of before, in float64, whatever it is shown."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, images):
        self.seen = images
        return self.logits.flatten(0, 1)


def batch(targets, sigma=None, epoch=0, size=2):
    pixels = torch.rand(len(targets), 1, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return Batch(pixels, targets, torch.arange(len(targets)), epoch, torch.Generator().manual_seed(0), sigma)


@pytest.mark.parametrize("own", [False, True])
def test_the_loss_is_the_papers_and_a_mean_over_all_inputs(own):
    rng = np.random.default_rng(0)
    seen = set()
    for copies, beta, gamma in product((1, 4, 16), (1.0, 16.0), (0.5, 8.0)):
        method = Macer(0.25, weight=12.0, gamma=gamma, beta=beta, copies=copies)
        logits, targets = rng.normal(0, 0.5, (copies, 30, 4)), rng.integers(0, 4, 30)
        logits[:, np.arange(30), targets] += 0.2
        sigma = torch.from_numpy(rng.uniform(0.1, 1, 30)) if own else None
        sigmas = sigma.tolist() if own else [0.25] * 30
        found = method.score(Given(torch.from_numpy(logits)), batch(torch.from_numpy(targets), sigma))
        each = [literal(method, sigmas[i], logits[:, i].tolist(), targets[i]) for i in range(30)]
        assert found.loss.item() == pytest.approx(sum(loss for loss, _ in each) / 30, abs=1e-8, rel=0)
        right = (logits.argmax(2) == targets).mean()
        assert found.accuracy.item() == pytest.approx(right)
        seen |= {kept for _, kept in each}
    assert seen == {False, True}


def test_the_hinge_keeps_right_inputs_with_a_radius_left_to_grow():
    logits = torch.tensor([[[0.2, 0.0, 0.0], [9.0, 0.0, 0.0], [0.2, 0.0, 0.0], [800.0, 0.0, 0.0]]])
    targets = torch.tensor([0, 0, 1, 0])
    found = Macer(0.25, gamma=4.0, beta=1.0, copies=1).shortfall(logits, targets)
    assert 0 < found[0] < 4
    assert found[1:].tolist() == [0, 0, 0]  # far enough, wrong, and too sure for any number


def test_the_gradient_is_the_losses():
    logits = 0.3 * torch.randn(3, 8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = logits.sum(dim=0).argmax(dim=1)
    targets[:4] = torch.arange(4) % 3
    method = Macer(0.25, beta=2.0, copies=3)
    assert 4 <= (method.shortfall(logits, targets) > 0).sum() < 8

    def losses(z):
        return method.misfit(z, targets) + method.shortfall(z, targets)

    assert torch.autograd.gradcheck(losses, (logits.requires_grad_(),))


def test_the_first_epochs_can_do_without_the_radius():
    logits = 0.3 * torch.randn(2, 8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(8) % 3

    def loss(epoch, **options):
        return Macer(0.25, beta=1.0, copies=2, **options).score(Given(logits), batch(targets, epoch=epoch)).loss

    assert loss(49, plain_epochs=50) == loss(0, weight=0.0)
    assert loss(50, plain_epochs=50) == loss(0) > loss(0, weight=0.0)
