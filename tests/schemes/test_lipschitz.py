"""Lipschitz: the radius of networks whose constant is known, without noise and without alpha."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.rules.lipschitz import LipschitzRule
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
    assert stage.scores[2:] == (pytest.approx(1.3125**0.5 + 3**0.5), sx.radius.rounding(3, bits=64))
    lost = stage.scores[3] * (2 * 2.0 * stage.scores[2] + 1.25)
    assert c.radius == pytest.approx(sx.radius.lipschitz(0.75 - lost, 2.0), abs=1e-14)
    assert (c.predicted, c.outcome, c.alpha, c.ledger) == (1, sx.Outcome.CERTIFIED, 0.01, ())
    assert (c.samples, c.sigma) == (1, 0.0)
    (p,) = f.predict(torch.tensor([[0.25, 1.0, -0.5]]))
    assert (p.predicted, p.p_value, p.outcome, p.ledger) == (1, 0.0, sx.Outcome.PREDICTED, ())
    assert f.certify(torch.tensor([[0.25, 1.0, -0.5]]), alpha=0.01, seed=7) == [c]


@pytest.mark.parametrize("scores", [(0.5, 0.5), (0.0, 0.0), (0.5, 0.5 + 2.0**-24), (1e9, 1e9 + 64)])
def test_a_tie_or_nearly_one_is_none(scores):
    f = sx.Lipschitz(lambda batch: batch, 100.0, classes=2)
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


def as_given(model: nn.Module, bits: int):
    """The module, or a function that has only 32 bits to give."""
    return model if bits == 64 else lambda batch: model(batch.float())


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


@pytest.mark.parametrize("bits", [32, 64])
def test_what_arithmetic_adds_to_a_margin_is_not_certified(bits):
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
        middle + step * (ends[0] - ends[1]) for step in (0.0, *(s * 10.0**-k for k in range(-1, 8) for s in (1, -1)))
    ]
    error = (model(torch.stack(near)).double() - fine(torch.stack(near).double())).abs().max()
    assert 2**-24 < error < sx.radius.rounding(784, bits=32)  # there is something to allow for, and it is ample
    found = sx.Lipschitz(as_given(model, bits), 1 + 1e-6, classes=2).certify(torch.stack(near))
    assert {c.stages[0].scores[3] for c in found} == {sx.radius.rounding(784, bits=bits)}
    for x, c in zip(near, found, strict=True):
        if c.predicted is not None:
            assert c.predicted == int(lead(x) < 0)
            assert c.radius <= abs(lead(x)) / 2**0.5
    assert any(c.predicted is not None for c in found)
    assert bits == 64 or any(c.predicted is None for c in found)


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
    found, _ = feed(rule.certifying(n0=1, n=1, alpha=0.1), lambda look: Scores(2, 3.0, -1.0, 0.0, 0.0))
    assert replay(rule.certifying(n0=1, n=1, alpha=0.1), found.stages) == found
    margins = [
        feed(rule.certifying(n0=1, n=1, alpha=0.1), lambda _, m=m: Scores(0, m, 0.0, 0.0, 0.0))[0].radius
        for m in (1, 2, 3)
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


class Plane(nn.Module):
    """Scores w.x + b and -(w.x + b): of constant sqrt(2) |w|, and |w.x + b| / |w| from the plane between them."""

    def __init__(self, w: torch.Tensor, b: float) -> None:
        super().__init__()
        self.layer = nn.Linear(w.numel(), 1)
        with torch.no_grad():
            self.layer.weight.copy_(w[None])
            self.layer.bias.fill_(b)

    def forward(self, batch):
        score = self.layer(batch.flatten(1))
        return torch.cat([score, -score], 1)


def integers(values: torch.Tensor) -> list[int]:
    """32-bit floats times 2**149, exactly."""
    return [int(math.ldexp(value, 149)) for value in values.flatten().tolist()]


SIZES = [("images", (3, 32, 32), 1.0), ("images", (3, 224, 224), 1.0)]
SIZES += [(None, (dim,), scale) for dim in (1_000, 100_000) for scale in (1e3, 1e5)]


def check_beside_a_plane(x: torch.Tensor, w: torch.Tensor, given, *, bits: int, domain="images") -> int:
    """No certificate exceeds the distance, in whole numbers; how many come within 1% of it.

    From beside the plane, where rounding decides the class, to far from it.
    """
    rows = integers(w)
    square = sum(a * a for a in rows)
    product = sum(a * b for a, b in zip(rows, integers(x), strict=True))
    length = math.sqrt(Fraction(square, 4**149))
    middle, useful = -product / 4**149, 0
    for factor in (0.0, *(s * 4.0**k for k in (-4, 0, 2, 3, 5, 11) for s in (-1, 1))):
        model = Plane(w, middle + factor * length * float(x.norm()) * 2.0**-24)
        away = product + (integers(model.layer.bias)[0] << 149)
        f = sx.Lipschitz(given(model), math.sqrt(2) * length * (1 + 1e-12), classes=2, domain=domain)
        (c,) = f.certify(x[None])
        assert c.stages[0].scores[3] == sx.radius.rounding(x.numel(), bits=bits)
        if c.predicted is not None:
            assert c.predicted == int(away < 0)
            assert Fraction(c.radius) ** 2 * square * 4**149 <= away**2
            useful += Fraction(c.radius) ** 2 * square * 4**149 > Fraction(98, 100) * away**2
    return useful


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("domain", "shape", "scale"), SIZES)
def test_no_certificate_of_a_plane_exceeds_its_exact_distance(domain, shape, scale, bits):
    rng = torch.Generator().manual_seed(math.prod(shape))
    x = scale * torch.rand(shape, generator=rng)
    w = 1 / math.sqrt(math.prod(shape)) * torch.rand(math.prod(shape), generator=rng)
    useful = check_beside_a_plane(x, w, lambda model: as_given(model, bits), bits=bits, domain=domain)
    assert useful >= 2 or bits == 32, "far from the plane little is lost"


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 224, 224)])
def test_nor_does_one_whose_products_are_added_one_by_one(shape):
    """Over a flat image every sum is rounded the same way, so that errors add up."""

    def added(model):
        def scores(batch):
            products = (model.layer.weight * batch.float().flatten(1)).detach().numpy()
            score = torch.from_numpy(np.cumsum(products, axis=1)[:, -1:]) + model.layer.bias.detach()
            return torch.cat([score, -score], 1)

        return scores

    d = math.prod(shape)
    check_beside_a_plane(torch.full(shape, 0.7), torch.full((d,), 1 / math.sqrt(d)), added, bits=32)


def test_rounding_takes_far_less_of_an_image_than_a_radius():
    for shape, most in (((3, 32, 32), 1e-6), ((3, 224, 224), 1e-3)):
        d = math.prod(shape)
        assert math.sqrt(2) * 2 * math.sqrt(d) * sx.radius.rounding(d, bits=64) < most


def test_a_module_that_rounds_on_its_way_has_32_bits():
    class Sly(nn.Module):
        def forward(self, batch):
            return batch.float().double() if self.rounds else batch

    x = torch.tensor([[0.25, 1.0]])
    for rounds, bits in ((True, 32), (False, 64)):
        Sly.rounds = rounds
        (c,) = sx.Lipschitz(Sly(), 1.0, classes=2).certify(x)
        assert c.stages[0].scores[3] == sx.radius.rounding(2, bits=bits)


def in_numpy(images):
    narrow = images.numpy().astype(np.float32) * np.float32(3)
    return torch.from_numpy(narrow.astype(images.numpy().dtype))


def number_by_number(images):
    narrow = [[float(np.float32(3) * np.float32(value)) for value in row] for row in images.tolist()]
    return torch.tensor(narrow, dtype=images.dtype)


@pytest.mark.parametrize("model", [in_numpy, number_by_number])
def test_scores_that_torch_did_not_compute_have_32_bits(model):
    """They come back in 64, after arithmetic that had fewer and that nobody saw."""
    (found,) = sx.Lipschitz(model, constant=3.0, classes=4).certify(torch.rand(1, 4))
    assert found.stages[0].scores[3] == sx.radius.rounding(4, bits=32)


def test_a_stated_rounding_is_recorded_and_used():
    f = sx.Lipschitz(lambda batch: batch, 1.0, classes=2, rounding=0.01)
    (c,) = f.certify(torch.tensor([[0.0, 1.0]]))
    assert c.radius == pytest.approx((1 - 0.01 * (2 * (1 + 2**0.5) + 1)) / 2**0.5, rel=1e-9)
    assert f.rule.describe()["rounding"] == 0.01
    assert rebuild(f.rule.describe()) == f.rule
    for rounding in (-0.1, 1.0, float("nan"), True, "0"):
        with pytest.raises(sx.RequestError, match="rounding must be a number"):
            sx.Lipschitz(lambda batch: batch, 1.0, classes=2, rounding=rounding)


def test_a_record_cannot_claim_finer_arithmetic_than_there_is():
    rule = LipschitzRule(1.0, 2)
    claimed, _ = feed(rule.certifying(n0=1, n=1, alpha=0.01), lambda ask: Scores(1, 1.0, 0.0, 1e6, 0.0))
    finest, _ = feed(
        rule.certifying(n0=1, n=1, alpha=0.01), lambda ask: Scores(1, 1.0, 0.0, 1e6, sx.radius.rounding(1, bits=64))
    )
    assert claimed.radius == finest.radius < 1 / 2**0.5
