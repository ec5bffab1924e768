import math

import numpy as np
import pytest
import torch
from torch import nn

from sigmax.train.methods.base import Batch
from sigmax.train.methods.smoothmix import SmoothMix


class Linear(nn.Module):
    """Three logits of four pixels, in float64; keeps all it was shown."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.slopes = nn.Parameter(3 * torch.randn(3, 4, dtype=torch.float64, generator=generator))
        self.seen = []

    def forward(self, images):
        self.seen.append(images.detach())
        return images.flatten(1) @ self.slopes.T


def batch(count=12, epoch=0, sigma=None):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.rand(count, 1, 2, 2, dtype=torch.float64, generator=generator)
    targets = torch.randint(3, (count,), generator=generator)
    return Batch(pixels, targets, torch.arange(count), epoch, torch.Generator().manual_seed(0), sigma)


def softmax(slopes, x):
    """Of one input, by the book."""
    logits = [sum(w * v for w, v in zip(row, x, strict=True)) for row in slopes]
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def smoothed(slopes, x, noises):
    f = [softmax(slopes, x + d) for d in noises]
    return [sum(one[c] for one in f) / len(f) for c in range(len(slopes))]


def literal_attack(method, slopes, x, y, noises):
    """The points of the attack: the gradient of -log F(a)_y of a linear network, written out."""
    points = [x]
    for _ in range(method.steps):
        slope = np.zeros(len(x))
        for d in noises:
            f = softmax(slopes, points[-1] + d)
            slope -= f[y] * (slopes[y] - sum(p * row for p, row in zip(f, slopes, strict=True)))
        slope /= len(noises) * smoothed(slopes, points[-1], noises)[y]
        moved = points[-1] + method.step * slope / math.sqrt(sum(v * v for v in slope))
        points.append(np.array([min(max(v, 0.0), 1.0) for v in moved]))
    return points


def literal_loss(method, slopes, start, mixture, y, noises, share, warm):
    """The formula for one input, term by term. And whether the mixture counts."""
    classes, m = range(len(slopes)), len(noises)
    loss = sum(-math.log(softmax(slopes, start + d)[y]) for d in noises) / m
    mean = smoothed(slopes, start, noises)
    right = max(classes, key=lambda c: mean[c]) == y
    if right:
        q = [(1 - share) * mean[c] + share / len(slopes) for c in classes]
        for d in noises:
            f = softmax(slopes, mixture + d)
            loss += warm * method.weight * sum(q[c] * math.log(q[c] / f[c]) for c in classes) / m
    return loss, right


@pytest.mark.parametrize("epoch", [0, 1, 9])
@pytest.mark.parametrize("mix_step", [0, 1])
def test_attack_mixture_and_loss_are_the_papers(mix_step, epoch):
    method = SmoothMix(0.3, step=0.4, steps=3, weight=5.0, mix_step=mix_step, copies=2, warm_up=4)
    model, given = Linear(), batch(epoch=epoch)
    loss, accuracy = method.score(model, given)
    warm = min(1.0, (epoch + 1) / 4)
    slopes = model.slopes.detach().numpy()
    pixels = given.pixels.flatten(1).numpy()
    shown = [one.flatten(1).unflatten(0, (2, 12)).numpy() for one in model.seen]
    noise = shown[0] - pixels  # (copies, inputs, pixels): the attack begins at the inputs
    assert len(shown) == 3 + 1 + 1
    total, rights = 0.0, []
    for i, y in enumerate(given.targets.tolist()):
        noises = noise[:, i]
        points = literal_attack(method, slopes, pixels[i], y, noises)
        start = pixels[i]
        if mix_step == 1:
            away = points[1] - start
            start = start + away * min(1.0, warm * method.step / math.sqrt(sum(v * v for v in away)))
        assert shown[3][:, i] == pytest.approx(start + noises, abs=1e-12)
        mixture = shown[4][0, i] - noises[0]
        share = np.dot(mixture - start, points[3] - start) / np.dot(points[3] - start, points[3] - start)
        assert 0 <= share <= 0.5
        assert mixture == pytest.approx((1 - share) * start + share * points[3], abs=1e-12)
        one, right = literal_loss(method, slopes, start, mixture, y, noises, share, warm)
        total += one
        rights.append(right)
    assert loss.item() == pytest.approx(total / 12, abs=1e-8, rel=0)
    assert 0 < sum(rights) < 12
    logits = torch.from_numpy(shown[3]) @ model.slopes.T
    assert accuracy.item() == pytest.approx((logits.argmax(2) == given.targets).double().mean().item())


def test_shares_are_uniform_on_the_first_half_and_differ():
    """Ten thousand inputs: the share of the way that each mixture lies at."""
    method, model = SmoothMix(0.1, step=0.1, steps=1, copies=1), Linear()
    given = batch(10_000)
    method.score(model, given)
    start, mixture = model.seen[1], model.seen[2]
    noise = start - given.pixels
    end = method.attacked(model, given.pixels, given.targets, noise, warm=1.0)[1]
    share = (mixture - start).flatten(1).norm(dim=1) / (end - given.pixels).flatten(1).norm(dim=1)
    levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    assert share.max() <= 0.5 + 1e-12
    assert share.quantile(levels).tolist() == pytest.approx([0.05, 0.25, 0.45], abs=0.01)


def test_the_gradient_is_the_losses():
    """Also through q: it is no constant."""
    generator = torch.Generator().manual_seed(0)
    start, mixture = torch.randn(2, 2, 6, 3, dtype=torch.float64, generator=generator)
    targets = start.exp().mean(dim=0).argmax(dim=1)
    targets[0] = (targets[0] + 1) % 3
    mixed = torch.linspace(0, 0.5, 6, dtype=torch.float64)

    def losses(*both):
        return SmoothMix(0.5).losses(*both, targets, mixed, warm=0.5)

    assert torch.autograd.gradcheck(losses, (start.requires_grad_(), mixture.requires_grad_()))


class Watched(nn.Module):
    """A small network with batch statistics; notes in which mode it was asked."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Tanh(), nn.Flatten(), nn.Linear(288, 3))
        self.modes = []

    def forward(self, images):
        self.modes.append(self.training)
        return self.body(images)


def images(count=20):
    generator = torch.Generator().manual_seed(3)
    pixels = torch.rand(count, 1, 8, 8, generator=generator)
    return Batch(pixels, torch.arange(count) % 3, torch.arange(count), 0, torch.Generator().manual_seed(0))


def test_the_attack_raises_the_smoothed_loss_and_leaves_no_trace():
    model, given = Watched(), images()
    noise = 0.25 * torch.randn(4 * 20, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    before = [value.clone() for value in model.state_dict().values()]
    ends = [given.pixels]
    for steps in (1, 2, 4, 8):
        method = SmoothMix(0.25, step=0.5, steps=steps, copies=4)
        start, end = method.attacked(model, given.pixels, given.targets, noise, warm=1.0)
        assert start is given.pixels
        ends.append(end)
    assert model.training
    assert not any(model.modes)
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())
    model.eval()
    losses = torch.stack([smoothed_losses(model, end, given.targets, noise) for end in ends])
    assert (losses.diff(dim=0) > 0).all()
    for end in ends:
        assert end.min() >= 0
        assert end.max() <= 1
    assert ((ends[1] - given.pixels).flatten(1).norm(dim=1) <= 0.5 + 1e-6).all()
    assert ((ends[4] - given.pixels).flatten(1).norm(dim=1) > 1).all()  # no ball holds it back


def smoothed_losses(model, pixels, targets, noise):
    with torch.no_grad():
        f = model(pixels.repeat(4, 1, 1, 1) + noise).softmax(dim=1).unflatten(0, (4, -1)).mean(dim=0)
    return -f.gather(1, targets[:, None])[:, 0].log()


def test_starts_and_mixtures_are_learned_in_training_mode_one_after_the_other():
    model = Watched()
    SmoothMix(0.25, steps=3, copies=2).score(model, images()).loss.backward()
    assert model.modes == [False, False, False, True, True]
    assert int(model.body[1].num_batches_tracked) == 2
    assert all(weight.grad is not None for weight in model.parameters())
