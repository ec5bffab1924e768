import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax.train.methods.base import Batch
from sigmax.train.methods.smoothadv import SmoothAdv

SHAPE = (2, 4, 3)
NUMBERS = math.prod(SHAPE)


class Linear(nn.Module):
    """Logits W x + b: a network whose gradients can be written down. Keeps what it was given, and in which mode."""

    def __init__(self, classes=4, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.weight = nn.Parameter(torch.from_numpy(rng.normal(0, 1, (classes, NUMBERS))))
        self.bias = nn.Parameter(torch.from_numpy(rng.normal(0, 1, classes)))
        self.seen = []

    def forward(self, images):
        self.seen.append((images.detach(), self.training))
        return images.flatten(1) @ self.weight.T + self.bias


def softmax(weight, bias, noisy):
    logits = [sum(w * z for w, z in zip(row, noisy, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
    shares = [math.exp(z - max(logits)) for z in logits]
    return [share / sum(shares) for share in shares]


def literal_attack(weight, bias, x, label, noises, *, radius, steps):
    """PGD on -log mean softmax for one input, number by number."""
    away = [0.0] * len(x)
    for _ in range(steps):
        f = [softmax(weight, bias, [a + b + c for a, b, c in zip(x, away, e, strict=True)]) for e in noises]
        mean = sum(shares[label] for shares in f) / len(f)
        # d softmax_y / dz = softmax_y (W_y - sum_k softmax_k W_k)
        slope = [
            -sum(s[label] * (weight[label][j] - sum(s[k] * weight[k][j] for k in range(len(s)))) for s in f)
            / (len(f) * mean)
            for j in range(len(x))
        ]
        size = math.sqrt(sum(g * g for g in slope))
        climbed = [d + 2 * radius / steps * g / size for d, g in zip(away, slope, strict=True)]
        away = [min(max(a + d, 0.0), 1.0) - a for a, d in zip(x, climbed, strict=True)]
        far = math.sqrt(sum(d * d for d in away))
        if far > radius:
            away = [d * radius / far for d in away]
    return [a + d for a, d in zip(x, away, strict=True)]


def batch_of(n=6, *, seed=0, epoch=100, sigma=None):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(n, *SHAPE, dtype=torch.float64, generator=generator)
    return Batch(pixels, torch.arange(n) % 4, torch.arange(n), epoch, generator, sigma)


@pytest.mark.parametrize(("copies", "steps", "epsilon"), [(1, 1, 0.5), (3, 4, 0.5), (2, 3, 2.0)])
def test_attack_and_loss_are_the_papers(copies, steps, epsilon):
    net, method = Linear(), SmoothAdv(0.5, epsilon=epsilon, copies=copies, steps=steps)
    batch = batch_of()
    loss, accuracy = method.score(net, batch)
    assert len(net.seen) == steps + 1
    noises = (net.seen[0][0] - batch.pixels.repeat(copies, 1, 1, 1)).view(copies, 6, -1).tolist()
    weight, bias = net.weight.tolist(), net.bias.tolist()
    total, right = 0.0, 0
    for i in range(6):
        mine, label = [noise[i] for noise in noises], batch.targets[i].item()
        x = batch.pixels[i].flatten().tolist()
        attacked = literal_attack(weight, bias, x, label, mine, radius=epsilon, steps=steps)
        for c, e in enumerate(mine):
            trained_on = [a + b for a, b in zip(attacked, e, strict=True)]
            assert net.seen[-1][0][c * 6 + i].flatten().tolist() == pytest.approx(trained_on, abs=1e-8, rel=0)
            shares = softmax(weight, bias, trained_on)
            total -= math.log(shares[label])
            right += max(range(4), key=shares.__getitem__) == label
    assert loss.item() == pytest.approx(total / (6 * copies), abs=1e-8, rel=0)
    assert accuracy.item() == pytest.approx(right / (6 * copies))


def network():
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_the_attack_raises_the_smoothed_loss_within_ball_and_box(epsilon):
    net, method = network(), SmoothAdv(0.25, epsilon=epsilon, copies=4)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(100, *SHAPE, generator=generator).round(decimals=0)  # all of them corners of the box
    pixels[50:] = torch.rand(50, *SHAPE, generator=generator)
    targets = torch.arange(100) % 4
    noise = 0.25 * torch.randn(400, *SHAPE, generator=generator)
    found = method.attacked(net, pixels, targets, noise, epoch=100)
    assert found.min() >= 0
    assert found.max() <= 1
    away = (found - pixels).flatten(1).norm(dim=1)
    assert (away <= epsilon * (1 + 1e-6)).all()
    assert away.max() > 0.9 * min(epsilon, 2.0)  # not further than the box allows
    net.eval()
    before, after = (method.smoothed_losses(net(x.repeat(4, 1, 1, 1) + noise), targets) for x in (pixels, found))
    assert (after > before).all()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not found.requires_grad


def images():
    return torch.rand(8, *SHAPE), torch.arange(8) % 4, torch.arange(8)


def test_the_radius_rises_over_the_warm_up():
    method = SmoothAdv(0.5, epsilon=2.0, warm_up=10)
    assert [method.radius(epoch) for epoch in (0, 4, 9, 10, 99)] == pytest.approx([0.2, 1.0, 2.0, 2.0, 2.0])
    assert SmoothAdv(0.5, epsilon=2.0, warm_up=1).radius(0) == 2.0
    net = network()
    pixels, targets, _ = images()
    noise = 0.1 * torch.randn(32, *SHAPE)
    first, last = (method.attacked(net, pixels, targets, noise, epoch=e) - pixels for e in (0, 9))
    assert (first.flatten(1).norm(dim=1) <= 0.2 + 1e-6).all()
    assert last.flatten(1).norm(dim=1).mean() > 2 * first.flatten(1).norm(dim=1).mean()


def test_sigma_zero_is_plain_adversarial_training():
    net, batch = Linear(), batch_of()
    method = SmoothAdv(0.0, copies=1, steps=2)
    loss = method.score(net, batch).loss
    found = method.attacked(net, batch.pixels, batch.targets, torch.zeros_like(batch.pixels), epoch=100)
    assert loss.item() == pytest.approx(functional.cross_entropy(net(found), batch.targets).item(), abs=1e-12)
