import math

import pytest
import torch
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint
from torch import nn
from torch.nn import functional

from sigmax.errors import RunError
from sigmax.train.loop.fit import fit
from sigmax.train.loop.partial import Partial
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.base import Batch, Examples
from sigmax.train.methods.easy_samples import EasySamples, right_votes
from sigmax.train.methods.gaussian import GaussianTraining
from sigmax.train.methods.noise_attack import on_sphere

PARTS = ("discard", "reweight", "attack")
ON, OFF = dict.fromkeys(PARTS, True), dict.fromkeys(PARTS, False)


class Threshold(nn.Module):
    """Class 1 where the first pixel exceeds one half: p_A of an input is Phi of how far it is, over sigma."""

    def forward(self, images):
        first = images[:, 0, 0, 0] - 0.5
        return torch.stack([-first, first], dim=1)


def known(count=2000, *, sigma=0.5):
    """Inputs of class 1 at all distances from the boundary, and their p_A, by the formula."""
    first = torch.linspace(-0.5, 2.5, count)
    pixels = torch.zeros(count, 1, 1, 1)
    pixels[:, 0, 0, 0] = first
    p_a = torch.special.ndtr((first - 0.5) / sigma)
    return Examples(pixels, torch.ones(count, dtype=torch.long)), p_a


def begun(method, examples, epoch, seed=0):
    """The method after the loop has begun the epoch."""
    torch.manual_seed(seed)
    method.begin_epoch(Threshold(), examples, epoch)
    return method


def weights(method, count=None):
    return method.state_dict().get("weights", None if count is None else torch.ones(count))


def test_right_votes_count_noisy_copies_of_the_true_class():
    examples, p_a = known()
    right = right_votes(Threshold(), examples, sigma=0.5, votes=100, generator=torch.Generator().manual_seed(0))
    # Each count is Binomial(100, p_A); five standard errors, and of the mean of them all.
    spread = (100 * p_a * (1 - p_a)).sqrt()
    assert ((right - 100 * p_a).abs() <= 5 * spread + 1).all()
    assert right.double().mean().item() == pytest.approx(100 * p_a.mean().item(), abs=0.5)


def test_inputs_below_the_threshold_are_dropped_at_the_discard_epoch():
    examples, p_a = known()
    method = EasySamples(0.5, discard_epoch=7, threshold=0.6, reweight=False)
    for epoch in range(7):
        assert weights(begun(method, examples, epoch)) is None
        order = method.order(2000, epoch, torch.Generator().manual_seed(0))
        assert sorted(order.tolist()) == list(range(2000))
    kept = weights(begun(method, examples, 7))
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    sure = (p_a - 0.6).abs() > 0.25  # five standard errors of 100 votes
    assert torch.equal(kept[sure] == 1, p_a[sure] > 0.6)
    assert 0.2 < kept.mean() < 0.8
    for epoch in (8, 17, 30):  # for good: no later epoch looks again
        assert torch.equal(weights(begun(method, examples, epoch, seed=epoch)), kept)


def test_votes_at_the_threshold_stay():
    """p_A < threshold drops; 0.55 as a float times 100 is above 55."""

    class Half(nn.Module):
        def forward(self, images):
            answers = torch.arange(len(images)) < 55
            return torch.stack([~answers, answers], dim=1).float()

    one = Examples(torch.zeros(1, 1, 1, 1), torch.ones(1, dtype=torch.long))
    method = EasySamples(0.5, discard_epoch=0, threshold=0.55, reweight=False)
    method.begin_epoch(Half(), one, 0)
    assert weights(method).tolist() == [1.0]
    higher = EasySamples(0.5, discard_epoch=0, threshold=0.551, reweight=False)
    with pytest.raises(RunError, match=r"no input has p_A of 0.551 or more after 0 epochs.*lower the threshold"):
        higher.begin_epoch(Half(), one, 0)


def test_a_network_that_knows_one_class_drops_nothing():
    """It would be left with the inputs of that class, and be right on all of them for ever."""
    examples, _ = known(20)
    mixed = Examples(examples.pixels + 9, torch.arange(20) % 2)
    with pytest.raises(RunError, match=r"inputs of one class alone have p_A of 0.5 or more after 0 epochs"):
        begun(EasySamples(0.5, discard_epoch=0), mixed, 0)


@pytest.mark.parametrize("reference", ["share", "limit"])
@pytest.mark.parametrize(("votes", "alpha", "share"), [(16, 0.1, 0.75), (100, 0.01, 0.8)])
def test_weights_are_the_papers(votes, alpha, share, reference):
    """The lower limit from statsmodels: one-sided at alpha is two-sided at 2 alpha."""
    method = EasySamples(
        0.5, weight_votes=votes, weight_alpha=alpha, weight_from=share, reference=reference, reweight=True
    )

    def radius(right):
        return norm.ppf(proportion_confint(right, votes, alpha=2 * alpha, method="beta")[0])

    unit = norm.ppf(share) if reference == "share" else radius(int(share * votes))
    expected = [max(1.0, radius(right) / unit) if right else 1.0 for right in range(votes + 1)]
    found = method.weights_of(torch.arange(votes + 1))
    assert found.tolist() == pytest.approx(expected, rel=1e-6)


def test_weights_of_the_papers_setting():
    share, limit = (
        EasySamples(0.5, reference=reference).weights_of(torch.arange(17)) for reference in ("share", "limit")
    )
    assert share[:15].tolist() == [1.0] * 15
    assert share[15:].tolist() == pytest.approx([1.134, 1.642], abs=5e-4)
    assert limit[:13].tolist() == [1.0] * 13
    assert limit[13:].tolist() == pytest.approx([2.138, 3.420, 4.976, 7.206], abs=5e-4)


def test_inputs_are_weighed_every_ten_epochs_from_the_discard_epoch_on():
    examples, p_a = known()
    method = EasySamples(0.5, discard_epoch=5, threshold=0.5)
    before = torch.ones(2000)
    for epoch in range(40):
        now = weights(begun(method, examples, epoch, seed=epoch), 2000)
        assert torch.equal(now, before) == (epoch not in {5, 15, 25, 35})
        before = now
    dropped = now == 0
    assert dropped.any()
    assert p_a[dropped].max() < 0.75  # what was dropped at epoch 5 stays dropped
    assert now[p_a > 0.999].mean() > 1.6
    assert set(now[~dropped].unique().tolist()) == set(method.weights_of(torch.tensor([0, 15, 16])).tolist())


def test_an_epoch_samples_as_many_inputs_in_proportion_to_their_weights():
    examples, _ = known(200)
    method = begun(EasySamples(0.5, discard_epoch=0, threshold=0.3), examples, 0)
    generator = torch.Generator().manual_seed(0)
    orders = [method.order(200, epoch, generator) for epoch in range(500)]
    assert {len(order) for order in orders} == {200}
    share = torch.bincount(torch.cat(orders), minlength=200) / 100_000
    expected = weights(method) / weights(method).sum()
    assert (share[expected == 0] == 0).all()
    # 100,000 samples: five standard errors.
    assert ((share - expected).abs() <= 5 * (expected / 100_000).sqrt()).all()


def test_each_part_can_be_left_out():
    examples, p_a = known()

    def after(**parts):
        method = begun(EasySamples(0.5, discard_epoch=3, **{**OFF, **parts}), examples, 3)
        return method, weights(method)

    nothing, ones = after()
    assert torch.equal(ones, torch.ones(2000))
    assert sorted(nothing.order(2000, 3, torch.Generator()).tolist()) == list(range(2000))
    assert torch.equal(after(attack=True)[1], torch.ones(2000))
    assert set(after(discard=True)[1].tolist()) == {0.0, 1.0}
    weighed = after(reweight=True)[1]
    assert weighed.min() == 1.0  # nothing dropped
    assert weighed[p_a > 0.999].mean() > 1.6
    kept = after(discard=True)[1]
    assert torch.equal(after(discard=True, reweight=True)[1] == 0, kept == 0)
    # The parts do not disturb each other: nothing is dropped below a threshold of 0, and the weights are the same.
    assert torch.equal(after(discard=True, threshold=0.0, reweight=True)[1], weighed)


def network():
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3)
    return nn.Sequential(*layers).double()


class Spy(nn.Module):
    """Keeps what a network is given and in which mode."""

    def __init__(self):
        super().__init__()
        self.inner = network()
        self.seen = []

    def forward(self, images):
        self.seen.append((images.detach(), self.training))
        return self.inner(images)


def batch_of(n=8, *, epoch=100, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(n, 1, 8, 8, dtype=torch.float64, generator=generator)
    return Batch(pixels, torch.arange(n) % 3, torch.arange(n), epoch, generator)


@pytest.mark.parametrize("kind", ["l2", "linf"])
def test_from_the_discard_epoch_on_the_noise_is_attacked(kind):
    method = EasySamples(0.5, copies=3, discard_epoch=10, steps=2, step=0.5, norm=kind)
    early, late = Spy().train(), Spy().train()
    method.score(early, batch_of(epoch=9))
    assert [training for _, training in early.seen] == [True]
    loss, accuracy = method.score(late, batch_of(epoch=10))
    assert [training for _, training in late.seen] == [False, False, True]
    # The noises are those of the early epoch, for the generator is the same, and moved as the attack says.
    pixels, targets = batch_of().pixels.repeat(3, 1, 1, 1), batch_of().targets.repeat(3)
    noise = early.seen[0][0] - pixels
    expected = on_sphere(network().eval(), pixels, targets, noise, steps=2, step=0.5, norm=kind)
    assert torch.allclose(late.seen[2][0], pixels + expected, atol=1e-12)
    assert not torch.allclose(expected, noise, atol=1e-3)
    logits = network().train()(pixels + expected)
    assert loss.item() == pytest.approx(functional.cross_entropy(logits, targets).item(), abs=1e-12)
    assert accuracy.item() == pytest.approx((logits.argmax(1) == targets).double().mean().item())


@pytest.mark.parametrize("epoch", [0, 100])
def test_without_the_attack_a_step_is_that_of_gaussian_training(epoch):
    method = EasySamples(0.5, copies=3, discard_epoch=10, attack=False)
    mine, theirs = (m.score(network(), batch_of(epoch=epoch)) for m in (method, GaussianTraining(0.5, copies=3)))
    assert mine.loss.item() == pytest.approx(theirs.loss.item(), abs=1e-12)
    assert mine.accuracy == theirs.accuracy


def test_the_loss_is_the_mean_cross_entropy_of_the_copies():
    spy, batch = Spy().eval(), batch_of(4)
    loss = EasySamples(0.5, copies=3, discard_epoch=10, steps=3).score(spy, batch).loss
    logits = spy.inner(spy.seen[-1][0]).tolist()
    total = 0.0
    for row, label in zip(logits, batch.targets.repeat(3).tolist(), strict=True):
        total -= math.log(math.exp(row[label]) / sum(math.exp(z) for z in row))
    assert loss.item() == pytest.approx(total / 12, abs=1e-8, rel=0)


SETTINGS = Settings(epochs=6, batch=32, lr=0.05, seed=3, augment="crop")


@pytest.fixture
def run(tmp_path, bars):
    """Train as `fit` does, looking again every second epoch; returns the model and the method."""
    examples = Examples(torch.from_numpy(bars.pixels(range(60))), torch.tensor(bars.labels))

    def train(name, **parts):
        model = network().float()
        method = EasySamples(0.6, copies=2, discard_epoch=2, threshold=0.95, weight_every=2, **{**ON, **parts})

        partial, metrics = Partial(tmp_path / f"{name}.partial", SETTINGS.plan()), tmp_path / f"{name}.jsonl"
        fit(model, method, examples, SETTINGS, partial=partial, metrics=metrics)
        return model, method

    return train


def same(first, second):
    mine, theirs = first.state_dict(), second.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_changes_the_run(run, part):
    (whole, _), (model, method) = run("whole"), run("without", **{part: False})
    assert not same(whole, model)
    assert (weights(method) == 0).any() == (part != "discard")
    assert (weights(method) > 1).any() == (part != "reweight")
