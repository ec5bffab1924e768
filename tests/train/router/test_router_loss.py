import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from sigmax.errors import RequestError
from sigmax.train.methods.base import Batch
from sigmax.train.router.loss import Router, shares_of

SHARES = (0.2, 0.5, 0.3)
GIVEN = {"sigma": 0.5, "shares": SHARES, "scale": 1.6}


def literal(method, logits, radii):
    """The paper's formula for one input, term by term: logits[m][k] of its copies, radii[k] of its experts."""
    routes = range(len(radii))
    best = max(routes, key=lambda k: (radii[k], -k))
    if method.labels_kind == "soft":
        total = sum(math.exp(method.sharpness * radii[k]) for k in routes)
        label = [math.exp(method.sharpness * radii[k]) / total for k in routes]
    else:
        label = [1.0 if k == best else 0.0 for k in routes]
    f = []
    for row in logits:
        total = sum(math.exp(z) for z in row)
        f.append([math.exp(z) / total for z in row])
    copies = len(f)
    mean = [sum(one[k] for one in f) / copies for k in routes]
    cross = sum(-sum(label[k] * math.log(one[k]) for k in routes) for one in f) / copies
    kl = sum(sum(mean[k] * math.log(mean[k] / one[k]) for k in routes) for one in f) / copies
    entropy = -sum(mean[k] * math.log(mean[k]) for k in routes)
    predicted = [max(routes, key=lambda k, row=row: (row[k], -k)) for row in logits]
    if method.strength == "none":
        w_r = 1.0
    else:
        w_r = radii[min(predicted) if method.strength == "weak" else max(predicted)] / method.scale
    w_e = 1 / method.shares[best] if method.balance else 1.0
    return w_e * (cross + w_r * (method.consistency * kl + method.entropy * entropy))


@pytest.mark.parametrize("strength", ["weak", "strong", "none"])
@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("labels_kind", ["soft", "hard"])
def test_the_loss_is_the_papers(labels_kind, balance, strength):
    rng = np.random.default_rng(0)
    for copies, consistency, entropy, sharpness in product((1, 2, 5), (0.0, 40.0), (0.0, 0.5), (1.0, 6.0)):
        method = Router(
            **GIVEN,
            copies=copies,
            labels_kind=labels_kind,
            sharpness=sharpness,
            consistency=consistency,
            entropy=entropy,
            balance=balance,
            strength=strength,
        )
        logits = rng.normal(0, 3, (copies, 20, 3))
        radii = rng.uniform(0, 1.6, (20, 3)) * (rng.random((20, 3)) < 0.7)
        found = method.losses(torch.from_numpy(logits), torch.from_numpy(radii))
        expected = [literal(method, logits[:, i].tolist(), radii[i].tolist()) for i in range(20)]
        assert found.shape == (20,)
        assert found.tolist() == pytest.approx(expected, abs=1e-8, rel=0)


def test_soft_labels_of_the_papers_example():
    """Choosing wrongly costs the first input all and the second little; sharper labels say so louder."""
    radii = torch.tensor([[0.0, 1.6, 0.0], [0.3, 0.4, 0.3]], dtype=torch.float64)
    e = math.exp(1.6)
    soft = Router(**GIVEN, sharpness=1.0).targets(radii)
    assert soft[0].tolist() == pytest.approx([1 / (2 + e), e / (2 + e), 1 / (2 + e)])
    assert soft[1, 1].item() == pytest.approx(1 / (1 + 2 * math.exp(-0.1)))
    sharp = Router(**GIVEN, sharpness=6.0).targets(radii)
    assert (sharp[:, 1] > soft[:, 1]).all()
    assert Router(**GIVEN, labels_kind="hard").targets(radii).tolist() == [[0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("strength", ["weak", "strong"])
def test_the_gradient_is_the_losses(strength):
    method = Router(**GIVEN, consistency=10.0, strength=strength)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    radii = torch.rand(6, 3, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradcheck(lambda z: method.losses(z, radii), (logits,))


def test_sure_answers_leave_everything_finite():
    logits = torch.tensor([[[1e4, 0.0, -1e4]], [[-1e4, 0.0, 1e4]]], requires_grad=True)
    loss = Router(**GIVEN).losses(logits, torch.tensor([[0.1, 0.2, 0.3]])).sum()
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


class Spy(nn.Module):
    """Keeps what it was given and answers three logits."""

    def forward(self, images):
        self.seen = images
        return images.flatten(1)[:, :3].clone()


def batch(pixels, radii, seed=0):
    return Batch(pixels, radii, torch.arange(len(pixels)), 0, torch.Generator().manual_seed(seed))


def test_every_copy_has_its_own_noise_from_the_batchs_generator():
    spy, pixels, radii = Spy(), torch.rand(50, 1, 8, 8), torch.rand(50, 3)
    method = Router(**GIVEN, copies=3)
    loss, accuracy = method.score(spy, batch(pixels, radii))
    noise = (spy.seen.unflatten(0, (3, 50)) - pixels).flatten(1)
    assert noise.std(dim=1).tolist() == pytest.approx([0.5] * 3, rel=0.05)
    assert torch.corrcoef(noise).triu(1).abs().max() < 0.1
    logits = spy.seen.flatten(1)[:, :3].unflatten(0, (3, 50))
    assert torch.equal(loss, method.losses(logits, radii).mean())
    assert accuracy.item() == pytest.approx((logits.argmax(2) == radii.argmax(1)).float().mean().item())
    assert torch.equal(loss, method.score(spy, batch(pixels, radii)).loss)
    assert not torch.equal(loss, method.score(spy, batch(pixels, radii, seed=1)).loss)


def test_shares_count_the_best_expert():
    radii = np.array([[0.1, 0.0, 0.0], [0.2, 0.2, 0.1], [0.0, 0.0, 0.3], [0.1, 0.2, 0.9]])
    assert shares_of(radii) == (0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma: expected a number above 0, got 0.0"),
        ({"sigma": math.nan}, "sigma: expected a finite number, got nan"),
        ({"shares": (1.0,)}, "shares: expected two or more shares that add up to 1"),
        ({"shares": (0.5, 0.6)}, "shares: expected two or more"),
        ({"shares": (1.5, -0.5)}, "shares: expected two or more"),
        ({"scale": 0.0}, "scale: expected a number above 0, got 0.0"),
        ({"scale": math.inf}, "scale: expected a finite number, got inf"),
        ({"copies": 0}, "copies: expected a number of at least 1, got 0"),
        ({"copies": 1.5}, "copies: expected a whole number, got 1.5"),
        ({"copies": True}, "copies: expected a whole number, got True"),
        ({"sharpness": 0.0}, "sharpness: expected a number above 0, got 0.0"),
        ({"consistency": -1.0}, "consistency: expected a number of at least 0, got -1.0"),
        ({"entropy": math.nan}, "entropy: expected a finite number, got nan"),
        ({"labels_kind": "crisp"}, "labels_kind: expected .* got 'crisp'"),
        ({"strength": "medium"}, "strength: expected .* got 'medium'"),
        ({"balance": "yes"}, "balance: expected .* got 'yes'"),
    ],
)
def test_wrong_hyper_parameters_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        Router(**{**GIVEN, **wrong})
