import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train.classifier import train_classifier
from sigmax.train.loop.noisy import standard_noise
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.base import Batch, Examples, Method
from sigmax.train.methods.data_dependent import DataDependent, radii
from sigmax.train.methods.easy_samples import EasySamples
from sigmax.train.methods.gaussian import GaussianTraining
from sigmax.train.methods.macer import Macer
from sigmax.train.methods.smoothadv import SmoothAdv
from sigmax.train.router.loss import Router

QUANTILE = NormalDist().inv_cdf


class Curved(nn.Module):
    """Three smooth logits of four pixels, in float64; keeps all it was shown, and in which mode."""

    def __init__(self, gain=3.0):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.slopes = nn.Parameter(gain * torch.randn(3, 4, dtype=torch.float64, generator=generator))
        self.seen, self.modes = [], []

    def forward(self, images):
        self.seen.append(images.detach())
        self.modes.append(self.training)
        return 2 * torch.tanh(images.flatten(1) @ self.slopes.T)


def batch(count=12, epoch=0):
    pixels = torch.rand(count, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return Batch(pixels, torch.arange(count) % 3, torch.arange(count), epoch, torch.Generator().manual_seed(0))


def begun(method, count=12):
    """The method as it is in the middle of a run's first epoch."""
    given = batch(count)
    method.begin_epoch(Curved(), Examples(given.pixels, given.targets), 0)
    return method


def literal_radius(model, pixels, sigma, noises):
    """R(sigma) of one input, term by term."""
    answers = [model((pixels + sigma * noise)[None])[0].tolist() for noise in noises]
    f = [[math.exp(z) / sum(map(math.exp, row)) for z in row] for row in answers]
    p = [sum(one[c] for one in f) / len(f) for c in range(3)]
    a, b = (min(max(value, 0.02), 0.98) for value in sorted(p, reverse=True)[:2])
    return sigma / 2 * (QUANTILE(a) - QUANTILE(b))


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("gain", [1.0, 20.0])
def test_the_radius_is_the_papers(copies, gain):
    model, pixels = Curved(gain), batch().pixels
    sigma = torch.linspace(0.1, 1, 12, dtype=torch.float64)
    noise = standard_noise(pixels, copies, torch.Generator().manual_seed(0))
    found = radii(model, pixels, noise, sigma)
    by_input = noise.unflatten(0, (copies, 12)).transpose(0, 1)
    expected = [literal_radius(model, x, s, e) for x, s, e in zip(pixels, sigma.tolist(), by_input, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-8, rel=0)


@pytest.mark.parametrize("noises", [1, 4])
def test_a_step_follows_the_slope_of_the_radius(noises):
    """The slope by finite differences, with the very noise the step saw."""
    method, model, given = DataDependent(GaussianTraining(0.5), step=1e-3, noises=noises), Curved(), batch()
    sigma = torch.linspace(0.3, 0.9, 12, dtype=torch.float64)
    moved = method.moved(model, given.pixels, sigma, given.generator)
    shown = model.seen[0].unflatten(0, (noises, 12))
    noise = (shown - given.pixels) / sigma[:, None, None, None]
    h, slopes = 1e-5, []
    for i, s in enumerate(sigma.tolist()):
        up, down = (literal_radius(model, given.pixels[i], s + sign * h, noise[:, i]) for sign in (1, -1))
        slopes.append((up - down) / (2 * h))
    assert ((moved - sigma) / 1e-3).tolist() == pytest.approx(slopes, abs=1e-6)
    assert max(slopes) > 0.1
    assert min(slopes) < -0.1


def test_an_input_the_network_is_sure_of_gains_noise_at_a_fixed_pace():
    """Both probabilities are at their limits, so dR/dsigma is half of Phi^-1(0.98) - Phi^-1(0.02)."""

    class Sure(nn.Module):
        def forward(self, images):
            return images.flatten(1)[:, :3] * 0 + torch.tensor([9.0, 0.0, 0.0])

    method, given = DataDependent(GaussianTraining(0.5), step=0.01), batch()
    moved = method.moved(Sure(), given.pixels, torch.full((12,), 0.5, dtype=torch.float64), given.generator)
    assert moved.tolist() == pytest.approx([0.5 + 0.01 * QUANTILE(0.98)] * 12)


def test_every_step_of_a_visit_has_fresh_noise_and_begins_where_the_last_ended():
    method, model, given = begun(DataDependent(GaussianTraining(0.5), step=0.05, steps=3)), Curved(), batch()
    first = DataDependent(GaussianTraining(0.5), step=0.05)
    sigma = method.sigmas.clone()
    moved = method.moved(model, given.pixels, sigma, given.generator)
    again = torch.Generator().manual_seed(0)
    for _ in range(3):
        sigma = first.moved(model, given.pixels, sigma, again)
    assert torch.equal(moved, sigma)
    assert not torch.equal(model.seen[3] - given.pixels, model.seen[4] - given.pixels)


def test_noise_stays_in_its_range():
    method, model = begun(DataDependent(GaussianTraining(0.5), step=100.0, lowest=0.8, highest=1.5)), Curved()
    for epoch in range(4):
        method.score(model, batch(epoch=epoch))
        assert method.sigmas.min() >= 0.8 * 0.5
        assert method.sigmas.max() <= 1.5 * 0.5
    assert method.sigmas.unique().tolist() == pytest.approx([0.4, 0.75])


@pytest.mark.parametrize(
    "inner", [GaussianTraining(0.5, copies=3), Macer(0.5, copies=3), SmoothAdv(0.5, copies=3, steps=2)]
)
def test_the_inner_method_trains_with_the_noise_moved(inner):
    method, model, given = begun(DataDependent(inner, step=0.05, noises=2)), Curved(), batch()
    before = method.sigmas.clone()
    found = method.score(model, given)
    again = batch()
    moved = method.moved(model, again.pixels, before, again.generator)
    expected = inner.score(model, replace(again, sigma=moved))
    assert torch.equal(found.loss, expected.loss)
    assert torch.equal(found.accuracy, expected.accuracy)
    assert torch.equal(method.sigmas, moved)
    assert not torch.equal(moved, before)


def test_only_the_batchs_inputs_move_and_the_network_is_left_as_it_was():
    method, model, given = begun(DataDependent(GaussianTraining(0.5), step=0.05)), Curved(), batch()
    part = torch.tensor([7, 2, 4])
    method.score(model, Batch(given.pixels[part], given.targets[part], part, 0, given.generator))
    assert (method.sigmas != 0.5).nonzero()[:, 0].tolist() == [2, 4, 7]
    assert model.modes == [False, True]
    assert model.slopes.grad is None
    assert model.slopes.requires_grad


def moving(sigma):
    return DataDependent(GaussianTraining(sigma), step=0.02, plain_epochs=1)


@pytest.fixture
def run(bars, tmp_path):
    """Trains on the bars and returns the weights and the method."""

    def train(name, make, **options):
        made = []

        def method(sigma):
            made.append(make(sigma))
            return made[-1]

        out = train_classifier(
            bars,
            architecture="small-cnn",
            options={"width": 4},
            sigma=0.3,
            out=tmp_path / f"{name}.safetensors",
            settings=Settings(epochs=4, batch=16, lr=0.05),
            method=method,
            **options,
        )
        return models.load(out)[0].state_dict(), made[-1]

    return train


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_noise_is_kept_from_epoch_to_epoch(run):
    means = []

    def make(sigma):
        method = DataDependent(GaussianTraining(sigma), step=1e-3, plain_epochs=1)
        remembered = method.begin_epoch

        def begin_epoch(model, examples, epoch):
            remembered(model, examples, epoch)
            means.append(method.sigmas.clone())

        method.begin_epoch = begin_epoch
        return method

    _, method = run("kept", make)
    assert means[0].unique().tolist() == means[1].unique().tolist() == pytest.approx([0.3])
    moves = torch.stack([*means[1:], method.sigmas]).diff(dim=0)
    assert (moves != 0).all()
    assert moves.abs().max() <= 1e-3 * 10


def test_a_method_object_used_again_starts_afresh(run):
    method = DataDependent(GaussianTraining(0.3), step=0.02)
    first = run("first", lambda _: method)[0]
    assert same(run("second", lambda _: method)[0], first)


def test_what_was_remembered_is_a_copy(run):
    _, method = run("whole", moving)
    state = method.state_dict()
    before = state["sigmas"].clone()
    method.sigmas += 1
    assert torch.equal(state["sigmas"], before)
    other = moving(0.3)
    other.load_state_dict(state)
    assert torch.equal(other.sigmas, before)
    assert torch.equal(other.per_example()[0], before)


def test_epochs_with_a_fixed_noise_are_the_inner_methods_own(run):
    alone, _ = run("alone", GaussianTraining)
    weights, method = run("fixed", lambda sigma: DataDependent(GaussianTraining(sigma), step=0.5, plain_epochs=4))
    assert same(alone, weights)
    assert method.sigmas.tolist() == pytest.approx([0.3] * len(method.sigmas))


@dataclass(frozen=True)
class OneNoise(Method):
    """A method of somebody's own that knows one noise alone."""

    name = "one-noise"
    sigma: float = 0.5

    def score(self, model, batch):
        raise NotImplementedError


@pytest.mark.parametrize(
    "inner",
    [
        OneNoise(),
        EasySamples(0.5),
        Router(0.5, (0.5, 0.5), 1.0),
        DataDependent(GaussianTraining(0.5)),
    ],
    ids=lambda inner: getattr(inner, "name", inner),
)
def test_methods_for_one_noise_alone_are_refused(inner):
    known = "consistency, gaussian, macer, smoothadv, smoothmix, stability"
    with pytest.raises(RequestError, match=rf"methods that learn under any noise of an input \({known}\), and "):
        DataDependent(inner)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inner": "gaussian"}, "inner: expected a.* Method, got 'gaussian'"),
        ({"inner": GaussianTraining(0.0)}, "inner.sigma: expected a number above 0, got 0.0"),
        ({"step": 0.0}, "step: expected a number above 0, got 0.0"),
        ({"step": math.nan}, "step: expected a finite number"),
        ({"steps": 0}, "steps: expected a number of at least 1, got 0"),
        ({"noises": 1.0}, "noises: expected a whole number, got 1.0"),
        ({"plain_epochs": -1}, "plain_epochs: expected a number of at least 0, got -1"),
        ({"lowest": 0.0}, "lowest: expected a number above 0, got 0.0"),
        ({"lowest": 1.1}, "lowest: expected a number of at most 1, got 1.1"),
        ({"highest": 0.9}, "highest: expected a number of at least 1, got 0.9"),
    ],
)
def test_wrong_hyper_parameters_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        DataDependent(**{"inner": GaussianTraining(0.5), **wrong})
