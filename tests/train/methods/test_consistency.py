import math
from itertools import product

import numpy as np
import pytest
import torch

from sigmax.train.methods.consistency import Consistency, unsteadiness
from sigmax.train.router.loss import Router


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
