import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax.train.methods.noise_attack import attacking, on_sphere, unit, within_ball

SHAPE = (2, 4, 3)  # channels, height, width: none the same, so that no axis can stand for another
NUMBERS = math.prod(SHAPE)


class Linear(nn.Module):
    """Logits W x + b: a network whose gradients can be written down."""

    def __init__(self, classes=4, seed=0, scale=1.0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.weight = nn.Parameter(torch.from_numpy(scale * rng.normal(0, 1, (classes, NUMBERS))))
        self.bias = nn.Parameter(torch.from_numpy(rng.normal(0, 1, classes)))

    def forward(self, images):
        return images.flatten(1) @ self.weight.T + self.bias


def softmax(logits):
    shares = [math.exp(z - max(logits)) for z in logits]
    return [share / sum(shares) for share in shares]


def length(vector):
    return math.sqrt(sum(v * v for v in vector))


def cross_entropy_slope(weight, bias, noisy, label):
    """Logits, and the gradient of -log softmax_y(W z + b) in z: sum_k (softmax_k - [k = y]) W_k."""
    logits = [sum(w * z for w, z in zip(row, noisy, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
    shares = softmax(logits)
    slope = [sum((shares[k] - (k == label)) * weight[k][j] for k in range(len(weight))) for j in range(len(noisy))]
    return logits, slope


def literal_sphere(weight, bias, x, label, sampled, *, steps, step, norm):
    """Algorithm 1 of the paper for one noise, number by number; sign steps as in App. C.3 and E.4."""
    noise = list(sampled)
    for _ in range(steps):
        logits, slope = cross_entropy_slope(weight, bias, [a + b for a, b in zip(x, noise, strict=True)], label)
        if max(range(len(logits)), key=logits.__getitem__) != label:
            break
        if norm == "l2":
            size = length(slope)
            moved = [d + step * g / size for d, g in zip(noise, slope, strict=True)]
        else:
            moved = [d + step / math.sqrt(len(x)) * math.copysign(1, g) for d, g in zip(noise, slope, strict=True)]
        noise = [length(sampled) * d / length(moved) for d in moved]
    return noise


def literal_ball(slope_at, sampled, *, radius, steps):
    """The attack of CAT-RS on one noise, number by number."""
    count = len(sampled)
    mean0 = sum(sampled) / count
    rms0 = math.sqrt(sum(d * d for d in sampled) / count)
    noise = list(sampled)
    for _ in range(steps):
        slope = slope_at(noise)
        size = length(slope)
        away = [d + 2 * radius / steps * g / size - d0 for d, g, d0 in zip(noise, slope, sampled, strict=True)]
        far = length(away)
        if far > radius:
            away = [a * radius / far for a in away]
        noise = [d0 + a for d0, a in zip(sampled, away, strict=True)]
        mean = sum(noise) / count
        spread = math.sqrt(sum((d - mean) ** 2 for d in noise) / count)
        # Numbers of mean 0 and spread 1, given mean0 and the spread that makes the RMS rms0.
        noise = [mean0 + math.sqrt(rms0**2 - mean0**2) * (d - mean) / spread for d in noise]
    return noise


def sampled(count=12, sigma=0.5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(count, *SHAPE, dtype=torch.float64, generator=generator)
    noise = sigma * torch.randn(count, *SHAPE, dtype=torch.float64, generator=generator)
    return pixels, noise


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_attack_on_the_sphere_is_algorithm_1(norm, steps):
    net = Linear()
    pixels, noise = sampled(20)
    targets = net(pixels).argmax(dim=1)  # right without noise: some noises err already, some after a step or two
    found = on_sphere(net, pixels, targets, noise, steps=steps, step=0.3, norm=norm)
    for i in range(20):
        expected = literal_sphere(
            net.weight.tolist(),
            net.bias.tolist(),
            pixels[i].flatten().tolist(),
            targets[i].item(),
            noise[i].flatten().tolist(),
            steps=steps,
            step=0.3,
            norm=norm,
        )
        assert found[i].flatten().tolist() == pytest.approx(expected, abs=1e-8, rel=0)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("radius", [0.2, 1.0])
def test_the_attack_in_the_ball_is_the_papers(radius, steps):
    net = Linear()
    pixels, noise = sampled(8)
    targets = torch.arange(8) % 4

    def losses(moved):
        return functional.cross_entropy(net(pixels + moved), targets, reduction="none")

    found = within_ball(losses, noise, radius=radius, steps=steps)
    for i in range(8):
        x, label = pixels[i].flatten().tolist(), targets[i].item()

        def slope_at(noise, x=x, label=label):
            noisy = [a + b for a, b in zip(x, noise, strict=True)]
            return cross_entropy_slope(net.weight.tolist(), net.bias.tolist(), noisy, label)[1]

        expected = literal_ball(slope_at, noise[i].flatten().tolist(), radius=radius, steps=steps)
        assert found[i].flatten().tolist() == pytest.approx(expected, abs=1e-8, rel=0)


def network(seed=0):
    torch.manual_seed(seed)
    layers = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_noise_moved_in_the_ball_is_worse_and_keeps_ball_mean_and_rms(radius):
    net = network().eval()
    pixels, noise = sampled(200, sigma=1.0)
    targets = torch.arange(200) % 4

    def losses(moved):
        return functional.cross_entropy(net(pixels + moved), targets, reduction="none")

    found = within_ball(losses, noise, radius=radius, steps=4)
    assert (losses(found) > losses(noise)).all()
    for moment in (lambda d: d.flatten(1).mean(dim=1), lambda d: d.flatten(1).square().mean(dim=1).sqrt()):
        assert moment(found).tolist() == pytest.approx(moment(noise).tolist(), rel=1e-12, abs=1e-12)
    spread = (noise - noise.mean(dim=(1, 2, 3), keepdim=True)).flatten(1).norm(dim=1)
    away = (found - noise).flatten(1).norm(dim=1)
    assert (away <= radius * spread / (spread - radius) + 1e-12).all()
    assert away.max() > 0.8 * radius  # as far as it may


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_noise_moved_on_the_sphere_is_worse_and_as_long(norm):
    net = network().eval()
    pixels, noise = sampled(200, sigma=1.0)
    targets = net(pixels).argmax(dim=1)
    found = on_sphere(net, pixels, targets, noise, steps=5, step=0.4, norm=norm)
    before = functional.cross_entropy(net(pixels + noise), targets, reduction="none")
    after = functional.cross_entropy(net(pixels + found), targets, reduction="none")
    right = net(pixels + noise).argmax(dim=1) == targets
    assert right.any()
    assert not right.all()
    assert (after > before)[right].all()
    assert torch.equal(found[~right], noise[~right])
    assert found.flatten(1).norm(dim=1).tolist() == pytest.approx(noise.flatten(1).norm(dim=1).tolist(), rel=1e-12)
    # The length fixes the density of the noise, and with it how likely it is: Theorem 2 of the paper.
    still = (net(pixels + found).argmax(dim=1) == targets).double().mean()
    assert still < 0.5 * right.double().mean()


def test_the_attack_stops_where_the_network_errs():
    """A noise on which the network errs after t steps is the same however many more were allowed."""
    net = Linear()
    pixels, noise = sampled(50)
    targets = net(pixels).argmax(dim=1)
    stages = [on_sphere(net, pixels, targets, noise, steps=t, step=0.2) for t in range(1, 7)]
    done = 0
    for now, later in pairwise(stages):
        wrong = net(pixels + now).argmax(dim=1) != targets
        assert torch.equal(now[wrong], later[wrong])
        assert not (now[~wrong] == later[~wrong]).flatten(1).all(dim=1).any()
        assert wrong.sum() >= done
        done = wrong.sum()
    assert done > 40


def test_an_attack_leaves_no_trace_in_the_network():
    net = network()
    net.train()
    net[1].eval()  # a layer somebody has fixed stays so
    net[4].bias.requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    pixels, noise = sampled()
    targets = torch.zeros(12, dtype=torch.long)
    with attacking(net):
        assert not any(module.training for module in net.modules())
        on_sphere(net, pixels, targets, noise, steps=2, step=0.1)
        within_ball(lambda d: net(pixels + d).logsumexp(dim=1), noise, radius=0.5, steps=2)
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    assert [module.training for module in net.modules()] == modes
    assert [p.requires_grad for p in net.parameters()] == [True] * 5 + [False]
    assert all(parameter.grad is None for parameter in net.parameters())
    with pytest.raises(ZeroDivisionError), attacking(net):
        1 / 0  # noqa: B018 (whatever fails)
    assert [module.training for module in net.modules()] == modes


def test_attacks_work_where_gradients_are_off():
    net = Linear()
    pixels, noise = sampled()
    with torch.no_grad():
        found = on_sphere(net, pixels, net(pixels).argmax(dim=1), noise, steps=2, step=0.1)
    assert not found.requires_grad
    assert not torch.equal(found, noise)


def test_a_network_without_slope_moves_nothing():
    net = Linear(scale=0.0)
    pixels, noise = sampled()
    targets = net(pixels).argmax(dim=1)
    for norm in ("l2", "linf"):
        assert torch.allclose(on_sphere(net, pixels, targets, noise, steps=3, step=1.0, norm=norm), noise)


def test_directions_of_small_vectors_are_directions():
    """32-bit squares of 1e-30 are zero; the vector is not."""
    vectors = torch.tensor([3e-30, 4e-30, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]).view(3, 1, 1, 3)
    expected = [0.6, 0.8, 0.0, 0.6, 0.8, 0.0, 0.0, 0.0, 0.0]
    assert unit(vectors).flatten().tolist() == pytest.approx(expected)
