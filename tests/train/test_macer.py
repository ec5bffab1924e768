import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import nn

from sigmax import data, models
from sigmax.errors import RequestError
from sigmax.train.classifier import train_classifier
from sigmax.train.macer import Macer
from sigmax.train.method import Batch
from sigmax.train.settings import Settings


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
    pixels = torch.rand(
        len(targets), 1, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
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


def test_sure_answers_leave_everything_finite():
    logits = torch.tensor([[[1e4, 0.0, -1e4], [30.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2, requires_grad=True)
    method = Macer(0.25, copies=2)
    loss = (
        method.misfit(logits, torch.zeros(3, dtype=int)) + method.shortfall(logits, torch.zeros(3, dtype=int))
    ).sum()
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_the_first_epochs_can_do_without_the_radius():
    logits = 0.3 * torch.randn(2, 8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(8) % 3

    def loss(epoch, **options):
        return Macer(0.25, beta=1.0, copies=2, **options).score(Given(logits), batch(targets, epoch=epoch)).loss

    assert loss(49, plain_epochs=50) == loss(0, weight=0.0)
    assert loss(50, plain_epochs=50) == loss(0) > loss(0, weight=0.0)


def test_every_copy_has_its_own_noise_with_its_inputs_sigma():
    sigma = torch.linspace(0.1, 2, 40)
    given = batch(torch.zeros(40, dtype=int), sigma, size=16)
    spy = Given(torch.zeros(4, 40, 3))
    Macer(0.25, copies=4).score(spy, given)
    noise = (spy.seen.unflatten(0, (4, 40)) - given.pixels).flatten(2)
    assert noise.std(dim=2).mean(dim=0).tolist() == pytest.approx(sigma.tolist(), rel=0.1)
    assert torch.corrcoef(noise.flatten(1)).triu(1).abs().max() < 0.1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma must be positive and finite, got 0.0"),
        ({"gamma": math.nan}, "gamma must be positive"),
        ({"beta": -1.0}, "beta must be positive and finite, got -1.0"),
        ({"weight": -1.0}, "weight must be at least 0 and finite, got -1.0"),
        ({"copies": 0}, "copies must be a whole number of at least 1, got 0"),
        ({"copies": 1.5}, "copies must be a whole number"),
        ({"plain_epochs": -1}, "plain_epochs must be a whole number of at least 0, got -1"),
        ({"plain_epochs": True}, "plain_epochs must be a whole number"),
    ],
)
def test_wrong_hyper_parameters_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        Macer(**{"sigma": 0.5, **wrong})


def test_it_learns_the_digits(tmp_path):
    """At noise 0.4, of the 360 test digits: 90% by a vote of 50 noises, after 6 epochs."""
    out = train_classifier(
        data.load("digits", "train"),
        architecture="small-cnn",
        sigma=0.4,
        out=tmp_path / "m.safetensors",
        method=lambda sigma: Macer(sigma, weight=1.0, copies=4, plain_epochs=3),
        settings=Settings(epochs=6, batch=128, lr=0.05),
    )
    assert smoothed_accuracy(models.load(out)[0], 0.4) > 0.9


def smoothed_accuracy(model, sigma):
    digits = data.load("digits", "test")
    pixels = torch.from_numpy(digits.pixels(range(len(digits))))
    noise = torch.randn(50, *pixels.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        votes = torch.stack([model(pixels + sigma * one).argmax(1) for one in noise])
    return (votes.mode(dim=0).values.numpy() == digits.labels).mean()
