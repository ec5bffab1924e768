import math

import numpy as np
import pytest
import torch
from torch import nn

from sigmax import data, models
from sigmax.errors import RequestError
from sigmax.train.classifier import train_classifier
from sigmax.train.method import Batch
from sigmax.train.settings import Settings
from sigmax.train.stability import Stability


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


def test_sure_answers_leave_everything_finite():
    clean = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    noisy = torch.tensor([[-1e4, 0.0, 1e4]], requires_grad=True)
    loss = Stability(0.5).losses(clean, noisy, torch.tensor([1])).sum()
    loss.backward()
    assert loss.isfinite()
    assert clean.grad.isfinite().all()
    assert noisy.grad.isfinite().all()


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


def test_inputs_may_have_a_noise_of_their_own():
    spy, pixels = Spy(), torch.rand(40, 1, 16, 16)
    Stability(0.5).score(spy, batch(pixels, torch.linspace(0.1, 2, 40)))
    spread = (spy.seen[1] - pixels).flatten(1).std(dim=1)
    assert spread.tolist() == pytest.approx(torch.linspace(0.1, 2, 40).tolist(), rel=0.2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma must be positive and finite, got 0.0"),
        ({"sigma": math.nan}, "sigma must be positive"),
        ({"weight": -1.0}, "weight must be at least 0 and finite, got -1.0"),
        ({"weight": math.inf}, "weight must be at least 0 and finite"),
    ],
)
def test_wrong_hyper_parameters_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        Stability(**{"sigma": 0.5, **wrong})


def test_it_learns_the_digits(tmp_path):
    """At noise 0.4, of the 360 test digits: 88% by a vote of 50 noises, after 10 epochs."""
    out = train_classifier(
        data.load("digits", "train"),
        architecture="small-cnn",
        sigma=0.4,
        out=tmp_path / "m.safetensors",
        method=Stability,
        settings=Settings(epochs=10, batch=128, lr=0.05),
    )
    assert smoothed_accuracy(models.load(out)[0], 0.4) > 0.88


def smoothed_accuracy(model, sigma):
    digits = data.load("digits", "test")
    pixels = torch.from_numpy(digits.pixels(range(len(digits))))
    noise = torch.randn(50, *pixels.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        votes = torch.stack([model(pixels + sigma * one).argmax(1) for one in noise])
    return (votes.mode(dim=0).values.numpy() == digits.labels).mean()
