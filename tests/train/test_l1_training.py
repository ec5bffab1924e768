"""Training under uniform and splitting noise: what a network learns from is what it will vote on."""

from functools import partial

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.engine.splits import split_copies
from sigmax.radius import Split, Uniform
from sigmax.train import Settings, train_classifier
from sigmax.train.loop.noisy import distribution, noisy_copies
from sigmax.train.methods.base import Batch
from sigmax.train.methods.registry import known, make_method
from sigmax.train.router.objective import margins

ANY = ("consistency", "gaussian", "stability")
SHORT = Settings(epochs=6, batch=128)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_uniform_copies_stay_within_the_scale():
    pixels = torch.rand(5, 1, 8, 8, generator=generator())
    noise = (noisy_copies(pixels, 0.5, 40, generator(), "uniform") - pixels.repeat(40, 1, 1, 1)) / 0.5
    assert noise.abs().max() <= 1 + 1e-6
    assert noise.std().item() == pytest.approx(3**-0.5, rel=0.02)
    each = noisy_copies(pixels, torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]), 40, generator(), "uniform")
    spread = (each - pixels.repeat(40, 1, 1, 1)).view(40, 5, -1).abs().amax(dim=(0, 2))
    assert torch.all((spread > torch.tensor([0.09, 0.19, 0.28, 0.38, 0.47])) & (spread <= torch.arange(1, 6) / 10))


def test_split_copies_are_what_the_system_will_show():
    pixels = torch.randint(0, 256, (3, 1, 4, 4), generator=generator()) / 255
    copies = noisy_copies(pixels, 0.3, 50, generator(), "splitting").view(50, 3, 16)
    split = Split.of_scale(0.3)
    for i, image in enumerate(pixels):
        steps = (image.flatten() * 255).round().long()
        views = {tuple(view) for view in split_copies(steps, split, 0, split.offsets).tolist()}
        shown = {tuple(copy) for copy in copies[:, i].tolist()}
        assert shown <= views
        assert len(shown) > 20


def test_copies_of_gaussian_noise_are_what_they_were():
    pixels = torch.rand(3, 1, 4, 4, generator=generator())
    expected = pixels.repeat(2, 1, 1, 1) + 0.5 * torch.randn(2, 3, 1, 4, 4, generator=generator()).flatten(0, 1)
    assert torch.equal(noisy_copies(pixels, 0.5, 2, generator()), expected)


@pytest.mark.parametrize("noise", ["uniform", "splitting"])
@pytest.mark.parametrize("name", sorted(known()))
def test_methods_learn_under_it_or_refuse_by_name(name, noise):
    if name not in ANY:
        with pytest.raises(sx.RequestError, match=f"{name} training is made for Gaussian noise.*{', '.join(ANY)}"):
            make_method(name, 0.5, noise=noise)
        return
    method = make_method(name, 0.5, {}, noise=noise)
    assert method.plan()["noise"] == noise
    net = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    batch = Batch(torch.rand(4, 1, 8, 8), torch.arange(4), torch.arange(4), 0, generator())
    score = method.score(net, batch)
    assert torch.isfinite(score.loss)


@pytest.mark.parametrize("noise", ["uniform", "splitting"])
def test_a_network_learns_the_digits_and_its_file_says_of_which_noise(noise, tmp_path):
    digits = sx.data.load("digits", "train")
    seen = []
    out = train_classifier(
        digits,
        sigma=0.3,
        noise=noise,
        out=tmp_path / "net.safetensors",
        settings=SHORT,
        validation=0.1,
        on_epoch=seen.append,
    )
    found = seen[-1].validation
    assert found["smoothed"] > 0.8
    assert found["radii"] == pytest.approx([0.0, 0.15, 0.3, 0.45])
    assert found["certified"][0] > 0.6
    assert found["certified"][2] == 0  # no radius reaches the scale
    description = models.read(out).description
    assert (description.sigma, description.notes["noise"]) == (0.3, noise)
    assert train_classifier(digits, sigma=0.3, noise=noise, out=out, settings=SHORT, validation=0.1) == out
    with pytest.raises(sx.RequestError, match="made by another run"):
        train_classifier(digits, sigma=0.3, out=out, settings=SHORT, validation=0.1)


def test_what_does_not_fit_is_refused_before_anything_is_read(tmp_path):
    digits, out = sx.data.load("digits", "train"), tmp_path / "net.safetensors"
    with pytest.raises(sx.RequestError, match="trains under gaussian noise, and noise='uniform' was asked for"):
        train_classifier(digits, sigma=0.3, noise="uniform", out=out, method=partial(make_method, "macer"))
    with pytest.raises(sx.RequestError, match="denoisers remove Gaussian noise"):
        train_classifier(digits, sigma=0.3, noise="uniform", out=out, denoiser=torch.nn.Identity())
    with pytest.raises(sx.RequestError, match="noise: expected 'gaussian', 'uniform' or 'splitting'"):
        train_classifier(digits, sigma=0.3, noise="cauchy", out=out)


def test_distributions_by_name():
    assert distribution("uniform", 0.5) == Uniform(0.5)
    assert distribution("splitting", 0.5) == Split(255)
    with pytest.raises(sx.RequestError, match="noise must be one of gaussian, uniform, splitting"):
        distribution("cauchy", 0.5)


def test_the_margins_of_a_router_are_those_of_its_noise():
    shares, good = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[[True, False, False]]])
    assert margins(shares, good, 2.0, "uniform").item() == pytest.approx(sx.radius.smoothed(Uniform(2.0), 0.7, 0.2))
    gaussian = sx.radius.gaussian(2.0, 0.7, 0.2)
    assert margins(shares, good, 2.0).item() == pytest.approx(gaussian, rel=1e-4)


def test_a_cascade_over_an_exact_last_is_calibrated(tmp_path, monkeypatch):
    """The last's radii are certified, not estimated; the levels vote under their own noise."""
    from sigmax.train.calibrate import CalibrateOptions, chosen, estimated, frontier

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    digits = sx.data.load("digits", "train").take(np.arange(40))
    level = sx.Smoothed(models.selective(net, confidence=0.5), noise=Uniform(1.0), classes=10)
    last = sx.Splitting(net, scale=0.5, grid=240, classes=10)
    cascade, radii = sx.Cascade([level], last), (0.1, 0.3)
    how = {"n": 1_000, "alpha": 0.001, "answers": tmp_path}
    found = chosen(estimated(cascade, digits, samples=32, **how), CalibrateOptions(radii=radii))
    certain = [c.radius * (c.predicted == y) for c, y in zip(last.certify(digits.pixels(range(40))), digits.labels)]  # noqa: B905
    alone = [100 * float(np.mean(np.array(certain) >= r)) for r in radii]
    assert 0 < found.confidence[0] < 1
    assert all(a >= b - 15 for a, b in zip(found.accuracy, alone, strict=True))
    with monkeypatch.context() as patched:
        patched.setattr(torch.nn.Linear, "forward", None)  # a network that is asked fails
        estimate = estimated(cascade, digits, samples=32, **how)
    assert estimate.radii([1.0]).tolist() == certain, "a level that always defers leaves the last as it is"
    assert estimate.alone(radii)[1].tolist() == alone
    assert all(best >= a for best, a in zip(found.envelope, alone, strict=True))
    assert list(frontier(estimate, radii, points=2).alone) == ["uniform 1", "splitting 0.5"]
    wider = sx.Cascade([level], sx.Splitting(net, scale=0.6, grid=240, classes=10))
    with pytest.raises(sx.RequestError, match="last.npz holds what a network answered to another request.*system"):
        estimated(wider, digits, samples=32, **how)
    gaussian = sx.Cascade([sx.Smoothed(net, sigma=1.0, classes=10)], sx.Smoothed(net, sigma=0.5, classes=10))
    with pytest.raises(sx.RequestError, match="level-0.npz holds what a network answered.*noise is"):
        estimated(gaussian, digits, samples=32, **how)
