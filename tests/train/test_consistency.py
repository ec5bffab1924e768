import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from sigmax import data, models
from sigmax.errors import RequestError
from sigmax.train.classifier import train_classifier
from sigmax.train.consistency import Consistency, unsteadiness
from sigmax.train.method import Batch
from sigmax.train.router_loss import Router
from sigmax.train.settings import Settings


def softmax(logits):
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def literal(consistency, entropy, logits, target):
    """The paper's formula for one input, term by term: logits[m][c] of its copies."""
    f = [softmax(row) for row in logits]
    classes, copies = range(len(f[0])), len(f)
    mean = [sum(one[c] for one in f) / copies for c in classes]
    cross = sum(-math.log(one[target]) for one in f) / copies
    kl = sum(sum(mean[c] * math.log(mean[c] / one[c]) for c in classes) for one in f) / copies
    return cross + consistency * kl - entropy * sum(mean[c] * math.log(mean[c]) for c in classes)


def test_the_loss_is_the_papers():
    rng = np.random.default_rng(0)
    for copies, consistency, entropy in product((2, 5), (0.0, 20.0), (0.0, 0.5)):
        logits, targets = rng.normal(0, 3, (copies, 20, 4)), rng.integers(0, 4, 20)
        method = Consistency(0.5, consistency, entropy, copies)
        found = method.losses(torch.from_numpy(logits), torch.from_numpy(targets))
        expected = [literal(consistency, entropy, logits[:, i].tolist(), targets[i]) for i in range(20)]
        assert found.tolist() == pytest.approx(expected, abs=1e-8, rel=0)


def test_the_router_has_the_same_regulariser():
    """Balance and strength off, a router's loss is the fit to its labels and this."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 10, 4, dtype=torch.float64, generator=generator)
    radii = torch.rand(10, 4, dtype=torch.float64, generator=generator)
    given = {"sigma": 0.5, "shares": (0.25,) * 4, "scale": 1.0, "balance": False, "strength": "none"}
    whole = Router(**given, consistency=7.0, entropy=0.3).losses(logits, radii)
    fit = Router(**given, consistency=0.0, entropy=0.0).losses(logits, radii)
    steady = unsteadiness(logits.log_softmax(2), consistency=7.0, entropy=0.3)
    assert (whole - fit).tolist() == pytest.approx(steady.tolist(), abs=1e-12)


def test_equal_copies_have_nothing_to_disagree_about():
    one = torch.randn(1, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_f = one.expand(3, -1, -1).log_softmax(2)
    assert unsteadiness(log_f, consistency=1.0, entropy=0.0).abs().max() < 1e-15


def test_the_gradient_is_the_losses():
    logits = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(6) % 3
    assert torch.autograd.gradcheck(lambda z: Consistency(0.5).losses(z, targets), (logits.requires_grad_(),))


def test_sure_answers_leave_everything_finite():
    logits = torch.tensor([[[1e4, 0.0, -1e4]], [[-1e4, 0.0, 1e4]]], requires_grad=True)
    loss = Consistency(0.5).losses(logits, torch.tensor([1])).sum()
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


class Spy(nn.Module):
    """Keeps what it was given and answers four logits."""

    def forward(self, images):
        self.seen = images
        return images.flatten(1)[:, :4]


def batch(pixels, sigma=None, seed=0):
    targets = torch.arange(len(pixels)) % 4
    return Batch(pixels, targets, torch.arange(len(pixels)), 0, torch.Generator().manual_seed(seed), sigma)


def test_every_copy_has_its_own_noise_from_the_batchs_generator():
    spy, pixels, method = Spy(), torch.rand(50, 1, 8, 8), Consistency(0.5, copies=3)
    loss, accuracy = method.score(spy, batch(pixels))
    noise = (spy.seen.unflatten(0, (3, 50)) - pixels).flatten(1)
    assert noise.std(dim=1).tolist() == pytest.approx([0.5] * 3, rel=0.05)
    assert torch.corrcoef(noise).triu(1).abs().max() < 0.1
    logits, targets = spy.seen.flatten(1)[:, :4].unflatten(0, (3, 50)), torch.arange(50) % 4
    assert torch.equal(loss, method.losses(logits, targets).mean())
    assert accuracy.item() == pytest.approx((logits.argmax(2) == targets).float().mean().item())
    assert torch.equal(loss, method.score(spy, batch(pixels)).loss)
    assert not torch.equal(loss, method.score(spy, batch(pixels, seed=1)).loss)


def test_inputs_may_have_a_noise_of_their_own():
    spy, pixels = Spy(), torch.rand(40, 1, 16, 16)
    Consistency(0.5).score(spy, batch(pixels, torch.linspace(0.1, 2, 40)))
    spread = (spy.seen.unflatten(0, (2, 40)) - pixels).flatten(2).std(dim=2).mean(dim=0)
    assert spread.tolist() == pytest.approx(torch.linspace(0.1, 2, 40).tolist(), rel=0.15)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma must be positive and finite, got 0.0"),
        ({"sigma": math.nan}, "sigma must be positive"),
        ({"consistency": -1.0}, "consistency must be at least 0 and finite, got -1.0"),
        ({"entropy": math.nan}, "entropy must be at least 0 and finite"),
        ({"copies": 1}, "copies must be a whole number of at least 2, .* got 1"),
        ({"copies": 2.0}, "copies must be a whole number"),
        ({"copies": True}, "copies must be a whole number"),
    ],
)
def test_wrong_hyper_parameters_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        Consistency(**{"sigma": 0.5, **wrong})


def test_it_learns_the_digits(tmp_path):
    """At noise 0.4, of the 360 test digits: 90% by a vote of 50 noises, after 8 epochs."""
    out = train_classifier(
        data.load("digits", "train"),
        architecture="small-cnn",
        sigma=0.4,
        out=tmp_path / "m.safetensors",
        method=lambda sigma: Consistency(sigma, consistency=5.0),
        settings=Settings(epochs=8, batch=128),
    )
    assert smoothed_accuracy(models.load(out)[0], 0.4) > 0.9


def smoothed_accuracy(model, sigma):
    digits = data.load("digits", "test")
    pixels = torch.from_numpy(digits.pixels(range(len(digits))))
    noise = torch.randn(50, *pixels.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        votes = torch.stack([model(pixels + sigma * one).argmax(1) for one in noise])
    return (votes.mode(dim=0).values.numpy() == digits.labels).mean()
