import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train.methods.base import Batch
from sigmax.train.methods.cat_rs import CatRS, divergence
from sigmax.train.methods.noise_attack import within_ball

SHAPE = (2, 4, 3)


def network(seed, *, classes=4, norm=True):
    torch.manual_seed(seed)
    middle = nn.BatchNorm2d(8) if norm else nn.Identity()
    layers = nn.Conv2d(2, 8, 3, padding=1), middle, nn.ReLU(), nn.Flatten(), nn.Linear(96, classes)
    return nn.Sequential(*layers).double()


def method_of(sigma=0.5, **given):
    return CatRS(sigma, **{"target": network(9), **given})


def softmax(logits):
    shares = [math.exp(z - max(logits)) for z in logits]
    return [share / sum(shares) for share in shares]


def literal(logits, hard, label, target, kept, *, weight, mean_over):
    """The loss of one input, term by term: logits[m][k] as sampled and attacked, target[k] probabilities."""
    copies = len(logits)
    fits = sorted(-math.log(softmax(row)[label]) for row in logits)
    low = sum(fits[:kept]) / (kept if mean_over == "kept" else copies)
    if kept < copies:
        return low
    diverging = []
    for row in hard:
        shares = softmax(row)
        diverging.append(sum(t * math.log(t / f) for t, f in zip(target, shares, strict=True)))
    return low + weight * max(diverging)


@pytest.mark.parametrize("mean_over", ["kept", "copies"])
@pytest.mark.parametrize(("copies", "weight"), [(1, 0.5), (4, 2.0), (3, 0.0)])
def test_the_loss_is_the_papers(copies, weight, mean_over):
    rng = np.random.default_rng(0)
    method = method_of(copies=copies, weight=weight, mean_over=mean_over)
    logits, hard = rng.normal(0, 3, (2, copies, 24, 5))
    targets = rng.integers(0, 5, 24)
    wanted = np.array([softmax(row) for row in rng.normal(0, 2, (24, 5)).tolist()])
    kept = np.arange(24) % copies + 1
    found = method.losses(
        torch.from_numpy(logits),
        torch.from_numpy(hard),
        torch.from_numpy(targets),
        torch.from_numpy(np.log(wanted)),
        torch.from_numpy(kept),
    )
    expected = [
        literal(
            logits[:, i].tolist(),
            hard[:, i].tolist(),
            targets[i],
            wanted[i],
            kept[i],
            weight=weight,
            mean_over=mean_over,
        )
        for i in range(24)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-8, rel=0)


def batch_of(n=10, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(n, *SHAPE, dtype=torch.float64, generator=generator)
    return Batch(pixels, torch.arange(n) % 4, torch.arange(n), 0, generator)


class Spy(nn.Module):
    """Keeps what a network is given, in which mode, and what it answers."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.seen = []

    def forward(self, images):
        logits = self.inner(images)
        self.seen.append((images.detach(), self.training, logits.detach()))
        return logits


def test_a_step_is_made_of_its_parts(monkeypatch):
    """The score again from what the network saw: noise, target, K, attack and loss, each by its definition."""
    target, net = network(9), Spy(network(1, norm=False).train())  # the same in both modes
    method = method_of(target=target, copies=3, steps=2, weight=1.5)
    sampled = []
    real = CatRS.sample_kept
    monkeypatch.setattr(CatRS, "sample_kept", lambda *a: sampled.append(real(*a)) or sampled[-1])
    batch = batch_of()
    loss, accuracy = method.score(net, batch)
    assert [training for _, training, _ in net.seen] == [True, False, False, True]
    noise = net.seen[0][0] - batch.pixels.repeat(3, 1, 1, 1)
    with torch.no_grad():
        votes = target.eval()(net.seen[0][0]).softmax(dim=1).view(3, 10, 4)
    wanted = votes.mean(dim=0)
    assert method.wanted(net.seen[0][0]).exp().flatten().tolist() == pytest.approx(wanted.flatten().tolist())
    pixels = batch.pixels.repeat(3, 1, 1, 1)
    hard = within_ball(
        lambda d: divergence(wanted.log(), net.inner(pixels + d).view(3, 10, 4)).flatten(),
        noise,
        radius=1.0,
        steps=2,
    )
    assert (net.seen[3][0] - pixels).flatten().tolist() == pytest.approx(hard.flatten().tolist(), abs=1e-12)
    logits, attacked = (net.seen[i][2].view(3, 10, 4) for i in (0, 3))
    expected = [
        literal(
            logits[:, i].tolist(),
            attacked[:, i].tolist(),
            batch.targets[i].item(),
            wanted[i].tolist(),
            sampled[0][i].item(),
            weight=1.5,
            mean_over="kept",
        )
        for i in range(10)
    ]
    assert loss.item() == pytest.approx(sum(expected) / 10, abs=1e-8, rel=0)
    assert accuracy.item() == pytest.approx((logits.argmax(dim=2) == batch.targets).double().mean().item())


def test_the_attack_raises_the_divergence():
    net, method = network(1).eval(), method_of(copies=4)
    batch = batch_of(40)
    pixels = batch.pixels.repeat(4, 1, 1, 1)
    noise = 0.5 * torch.randn(160, *SHAPE, dtype=torch.float64, generator=batch.generator)
    wanted = method.wanted(pixels + noise)
    hard = method.attacked(net, pixels, noise, wanted)
    before, after = (divergence(wanted, net(pixels + d).view(4, 40, 4)) for d in (noise, hard))
    assert (after > before).all()
    expected = within_ball(
        lambda d: divergence(wanted, net(pixels + d).view(4, 40, 4)).flatten(), noise, radius=1.0, steps=4
    )
    assert torch.equal(hard, expected)
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("right", range(5))
def test_how_many_noises_are_kept_is_binomial_and_at_least_one(right):
    """40,000 samples against the exact probabilities; five standard errors are 0.0125 at most."""
    method = method_of(copies=4)
    marks = (torch.arange(4) < right)[:, None].expand(4, 40_000)
    kept = method.sample_kept(marks, torch.Generator().manual_seed(0))
    p = Fraction(right, 4)
    chances = [math.comb(4, k) * p**k * (1 - p) ** (4 - k) for k in range(5)]
    chances[1] += chances[0]
    found = [(kept == k).float().mean().item() for k in range(1, 5)]
    assert found == pytest.approx([float(chance) for chance in chances[1:]], abs=0.0125)
    assert kept.min() >= 1


def test_unsure_inputs_count_less_when_divided_by_all_copies():
    logits = torch.randn(4, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    given = logits, logits, torch.zeros(3, dtype=torch.long), logits[0].log_softmax(dim=1), torch.tensor([1, 2, 3])
    kept, copies = (method_of(mean_over=kind).losses(*given) for kind in ("kept", "copies"))
    assert (copies / kept).tolist() == pytest.approx([0.25, 0.5, 0.75])


def test_the_target_is_never_trained():
    target = network(9).train()
    method = method_of(target=target)
    net = network(1).train()
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for seed in range(3):
        loss = method.score(net, batch_of(seed=seed)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for module in (target, method.teacher):
        assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
        assert all(parameter.grad is None for parameter in module.parameters())
    assert target.training
    assert all(parameter.requires_grad for parameter in target.parameters())
    assert not method.teacher.training


@pytest.fixture
def checkpoint(tmp_path):
    def make(**given):
        asked = {"architecture": "small-cnn", "options": {"width": 4}, "classes": 4, "input_shape": SHAPE}
        torch.manual_seed(0)
        made = models.create(Description(**{**asked, "sigma": 0.5, **given}))
        return models.save(tmp_path / "target.safetensors", made)

    return make


def test_the_plan_names_the_target_by_what_it_computes(checkpoint, tmp_path):
    path = checkpoint()
    model, _ = models.load(path)
    moved = Path(tmp_path / "moved.safetensors")
    moved.write_bytes(path.read_bytes())
    plans = [CatRS(0.5, target).plan() for target in (path, str(path), moved, model)]
    assert plans[0] == {
        "name": "cat-rs",
        "sigma": 0.5,
        "weight": 0.5,
        "copies": 4,
        "epsilon": 1.0,
        "steps": 4,
        "mean_over": "kept",
        "target": models.fingerprint(path),
    }
    assert all(plan == plans[0] for plan in plans)
    with torch.no_grad():
        model.network.linear.bias += 1
    assert CatRS(0.5, model).plan() != plans[0]


def test_without_a_fitting_target_nothing_starts(checkpoint, tmp_path):
    with pytest.raises(RequestError, match="cat-rs needs a target model .* --method gaussian at sigma 0.25"):
        CatRS(0.25)
    with pytest.raises(RequestError, match="there is no checkpoint"):
        CatRS(0.25, tmp_path / "absent.safetensors")
    with pytest.raises(RequestError, match="target: expected .* got 3"):
        CatRS(0.25, 3)
    path = checkpoint()
    with pytest.raises(RequestError, match=r"was trained with noise 0.5 and cat-rs is to train with 0.25"):
        CatRS(0.25, path)
    with pytest.raises(RequestError, match=r"takes images of shape \(2, 4, 3\), and these are \(1, 8, 8\)"):
        CatRS(0.5, path).wanted(torch.rand(4, 1, 8, 8))
    with pytest.raises(RequestError, match="the target network has 5 classes and the network trained 4"):
        method_of(target=network(9, classes=5)).score(network(1), batch_of())
