"""Lipschitz: the radius of networks whose constant is known, without noise and without alpha."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.rules.lipschitz import ROUNDING, LipschitzRule
from sigmax.rules.procedure import Scores
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from tests.schemes.helpers import feed


def orthogonal(size: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]


class Linear(nn.Module):
    """f(x) = scale * Qx + b: of constant `scale`, and no smaller one."""

    def __init__(self, size: int, classes: int, scale: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("rows", (scale * orthogonal(size)[:classes]).float())
        self.register_buffer("bias", torch.linspace(-0.3, 0.3, classes))

    def forward(self, batch):
        return batch.flatten(1) @ self.rows.T + self.bias


def exact(model: Linear, x: torch.Tensor) -> tuple[int, float]:
    """The class at x and the distance to the nearest plane on which another one samples level, in 64 bits."""
    scores = x.double() @ model.rows.double().T + model.bias.double()
    top = int(scores.argmax())
    steps = model.rows.double()[top] - model.rows.double()
    others = [j for j in range(len(scores)) if j != top]
    return top, float(min((scores[top] - scores[j]) / steps[j].norm() for j in others))


@pytest.mark.parametrize("scale", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_linear_network_is_certified_up_to_its_planes_and_no_further(scale, classes):
    model = Linear(12, classes, scale)
    f = sx.Lipschitz(model, scale * (1 + 1e-6), classes=classes)  # its rows were rounded to 32 bits
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(300, 12))).float()
    for point, c in zip(x, f.certify(x), strict=True):
        top, truth = exact(model, point)
        if c.predicted is None:
            assert truth < 1e-3
            continue
        assert c.predicted == top
        assert truth - 1e-3 * (1 + truth) < c.radius <= truth


def test_a_certificate_holds_the_two_scores_and_spends_nothing():
    f = sx.Lipschitz(lambda batch: batch, 2.0, classes=3)
    (c,) = f.certify(torch.tensor([[0.25, 1.0, -0.5]]), alpha=0.01)
    (stage,) = c.stages
    assert (stage.name, stage.sigma, stage.counts, stage.n, stage.alpha) == ("score", 0.0, (0, 1, 0), 1, 0.0)
    assert (stage.scores[:2], stage.lower, stage.radius) == ((1.0, 0.25), None, c.radius)
    assert c.radius == sx.radius.lipschitz(0.75 - 2 * 2.0 * ROUNDING, 2.0)
    assert (c.predicted, c.outcome, c.alpha, c.ledger) == (1, sx.Outcome.CERTIFIED, 0.01, ())
    assert (c.samples, c.sigma) == (1, 0.0)
    (p,) = f.predict(torch.tensor([[0.25, 1.0, -0.5]]))
    assert (p.predicted, p.p_value, p.outcome, p.ledger) == (1, 0.0, sx.Outcome.PREDICTED, ())
    assert f.certify(torch.tensor([[0.25, 1.0, -0.5]]), alpha=0.01, seed=7) == [c]


@pytest.mark.parametrize("scores", [(0.5, 0.5), (0.0, 0.0), (0.5, 0.5 + 1e-5), (1000.0, 1000.05)])
def test_a_tie_or_nearly_one_is_none(scores):
    f = sx.Lipschitz(lambda batch: batch, 1.0, classes=2)
    x = torch.tensor([scores])
    (c,), (p,) = f.certify(x), f.predict(x)
    assert (c.predicted, c.radius, c.outcome) == (None, 0.0, sx.Outcome.TIED)
    assert (p.predicted, p.outcome, p.p_value) == (None, sx.Outcome.TIED, 1.0)


class Deep(nn.Module):
    """Twelve orthogonal layers with sorting in between: of constant 1, if its arithmetic were exact."""

    def __init__(self, size: int = 784, layers: int = 12) -> None:
        super().__init__()
        self.layers = nn.ParameterList(
            nn.Parameter(orthogonal(size, seed).float(), requires_grad=False) for seed in range(layers)
        )
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, batch):
        for rows in self.layers[:-1]:
            halves = (batch @ rows).chunk(2, 1)
            batch = torch.cat([torch.maximum(*halves), torch.minimum(*halves)], 1)
        return (batch @ self.layers[-1])[:, :2] - self.shift


@pytest.mark.parametrize(("dim", "scale"), [(1_000, 1e3), (150_528, 1.0)])
def test_scores_of_large_inputs_are_not_taken_to_be_exact(dim, scale):
    """Beside the boundary of inputs whose norm is so large that rounding moves their scores across it."""
    normal = torch.ones(dim) / dim**0.5

    def network(batch):
        away = batch @ normal
        return torch.stack([-away, away], 1) / 2**0.5

    x = scale * torch.randn(40, dim, generator=torch.Generator().manual_seed(0))
    x -= (x.double() @ normal.double()).float()[:, None] * normal
    far = x + 1e4 * normal
    f = sx.Lipschitz(network, 1 + 1e-6, classes=2)
    for points in (x, far):
        truth = points.double() @ normal.double()
        for away, c in zip(truth.tolist(), f.certify(points), strict=True):
            assert c.predicted is None or (c.predicted == int(away > 0) and c.radius <= abs(away))
    assert all(c.predicted == 1 for c in f.certify(far))


def test_what_arithmetic_adds_to_a_margin_is_not_certified():
    """Beside the boundary, with scores that are small differences of large numbers."""
    model, fine = Deep(), Deep().double()
    ends = torch.rand(2, 784, generator=torch.Generator().manual_seed(3))

    def lead(x):
        first, second = fine(x[None].double())[0].tolist()
        return first - second

    middle = ends.mean(0)
    model.shift += model(middle[None])[0]
    fine.shift += model.shift.double()
    near = [
        middle + step * (ends[0] - ends[1]) for step in (0.0, *(s * 10.0**-k for k in range(1, 8) for s in (1, -1)))
    ]
    found = sx.Lipschitz(model, 1 + 1e-6, classes=2).certify(torch.stack(near))
    error = (model(torch.stack(near)).double() - fine(torch.stack(near).double())).abs().max()
    assert 2**-24 < error < ROUNDING / 8  # there is something to allow for, and the allowance is ample
    for x, c in zip(near, found, strict=True):
        if c.predicted is not None:
            assert c.predicted == int(lead(x) < 0)
            assert c.radius <= abs(lead(x)) / 2**0.5
    assert any(c.predicted is not None for c in found)
    assert any(c.predicted is None for c in found)


def test_bf16_is_not_used_whatever_the_caller_is_within():
    x, model = torch.rand(4, 784), Deep(layers=3)
    before = sx.Lipschitz(model, 1.0, classes=2).certify(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sx.Lipschitz(model, 1.0, classes=2).certify(x) == before
    assert sx.Lipschitz(model, 1.0, classes=2).voters["base"].dtype is torch.float32


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda batch: batch.argmax(1), r"scores of shape \(batch, 2\), not class ids"),
        (lambda batch: batch[:, :1], "1 logits an input"),
        (lambda batch: batch.bfloat16(), "32-bit floats or finer.*bfloat16"),
        (lambda batch: batch.half(), "32-bit floats or finer.*float16"),
        (lambda batch: batch.long(), "32-bit floats or finer.*int64"),
        (lambda batch: torch.rand(len(batch), 2), "changes when the same batch is repeated"),
    ],
)
def test_a_network_without_scores_is_refused(model, message):
    with pytest.raises(sx.RequestError, match=message):
        sx.Lipschitz(model, 1.0, classes=2).certify(torch.rand(2, 2))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_no_numbers_are_never_certified(value):
    def late(batch):  # behaves in the trial, fails later
        return batch if len(batch) == 8 else torch.tensor([[0.5, value]])

    with pytest.raises(sx.RunError, match="not finite"):
        sx.Lipschitz(late, 1.0, classes=2).certify(torch.rand(1, 2))


@pytest.mark.parametrize("constant", [0, -1.0, float("nan"), float("inf"), "1", True, None, 1e-320, 10**400])
def test_a_constant_that_makes_no_sense_is_refused(constant):
    with pytest.raises(sx.RequestError, match="constant must be a positive number"):
        sx.Lipschitz(lambda batch: batch, constant, classes=2)


@pytest.mark.parametrize("classes", [1, 0, 2.5, True])
def test_a_number_of_classes_that_makes_no_sense_is_refused(classes):
    with pytest.raises(sx.RequestError, match="classes must be a whole number"):
        sx.Lipschitz(lambda batch: batch, 1.0, classes=classes)


def test_inputs_are_checked_as_everywhere():
    f = sx.Lipschitz(lambda batch: batch.flatten(1)[:, :2], 1.0, classes=2)
    with pytest.raises(sx.RequestError, match=r"pixels must lie in \[0, 1\]"):
        f.certify(torch.full((1, 1, 2, 2), 2.0))
    with pytest.raises(sx.RequestError, match="alpha must lie strictly"):
        f.certify(torch.rand(1, 1, 2, 2), alpha=2.0)
    (found,) = f.certify(torch.full((1, 1, 2, 2), 0.5), n0=1, n=1)  # there are no samples to be too few
    assert found.outcome is sx.Outcome.TIED


def test_a_rule_survives_its_description_and_a_record_its_replay():
    rule = LipschitzRule(constant=1.5, classes=4)
    assert rebuild(rule.describe()) == rule
    found, _ = feed(rule.certifying(n0=1, n=1, alpha=0.1), lambda look: Scores(2, 3.0, -1.0, 0.0))
    assert replay(rule.certifying(n0=1, n=1, alpha=0.1), found.stages) == found
    margins = [
        feed(rule.certifying(n0=1, n=1, alpha=0.1), lambda _, m=m: Scores(0, m, 0.0, 0.0))[0].radius for m in (1, 2, 3)
    ]
    assert all(first < second for first, second in pairwise(margins))


def test_numpys_numbers_are_taken_as_plain_ones():
    f = sx.Lipschitz(lambda batch: batch, np.float32(2.0), classes=np.int64(2))
    assert (type(f.constant), type(f.rule.classes)) == (float, int)


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 64, 64)])
def test_rounding_that_adds_up_over_a_flat_image_certifies_no_contradiction(shape):
    """A convolution over a flat image errs far more than over a noisy one beside it; a bias makes both scores small."""
    d = math.prod(shape)
    layer = torch.nn.Conv2d(3, 2, shape[1:])
    noise = torch.randn((1, *shape), generator=torch.Generator().manual_seed(1))
    noise = (noise - noise.mean()) * 1e-7 * d / noise.norm()
    apart = 0.0
    for grey in np.linspace(0.3, 0.97, 25):
        x = torch.full((1, *shape), float(grey))
        with torch.no_grad():
            layer.weight.zero_(), layer.bias.zero_()
            layer.weight[0] = 0.999999 / math.sqrt(d)  # so the scores (w.x + b, 0) have the constant 1
            here, there = layer(x)[0, 0].item(), layer(x + noise)[0, 0].item()
            apart = max(apart, abs(here - there))
            layer.bias[0] = -(here + there) / 2
        found = sx.Lipschitz(torch.nn.Sequential(layer, torch.nn.Flatten()), 1.0, classes=2).certify(
            torch.cat([x, x + noise])
        )
        labels = {c.predicted for c in found} - {None}
        distance = float(noise.double().norm())
        assert len(labels) < 2 or sum(c.radius for c in found) <= distance
    assert apart > 2 * float(noise.double().norm()), "the case presses: scores differ by rounding, not by distance"
