"""Training a denoiser: what it minimises, that it learns, how it goes on, what it refuses."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train import DENOISING, Batch, Denoising, train_classifier, train_denoiser
from sigmax.train.loop.noisy import noisy_copies, uniform
from sigmax.train.loop.progress import metrics_path
from sigmax.train.loop.settings import Settings

SMALL = {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []}
QUICK = replace(DENOISING, epochs=4, batch=20)


@pytest.fixture
def train(bars, tmp_path):
    return partial(
        train_denoiser, bars, sigmas=(0.1, 0.5), options=SMALL, settings=QUICK, out=tmp_path / "d.safetensors"
    )


@pytest.fixture(scope="module")
def classifier(bars, tmp_path_factory):
    """A classifier of clean bars."""
    out = tmp_path_factory.mktemp("classifier") / "net.safetensors"
    settings = Settings(epochs=20, batch=16, lr=0.05)
    train_classifier(bars, options={"width": 4}, sigma=0.0, out=out, settings=settings)
    return models.load(out)[0]


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(6, 1, 8, 8, generator=generator)
    return Batch(pixels, torch.arange(6) % 3, torch.arange(6), 0, generator)


class Half(nn.Module):
    """Moves every pixel half-way to grey, and notes the sigma it was given."""

    def forward(self, noisy, sigma):
        self.seen = noisy, sigma
        return (noisy + 0.5) / 2


def test_the_loss_is_the_squared_error_at_a_noise_drawn_for_each_image():
    model, given = Half(), batch()
    score = Denoising(0.2, 0.6).score(model, given)
    noisy, sigma = model.seen
    same = torch.Generator().manual_seed(0)
    pixels = torch.rand(6, 1, 8, 8, generator=same)
    expected = 0.2 + 0.4 * uniform(pixels, same)
    assert torch.equal(sigma, expected)
    assert len(set(sigma.tolist())) == 6
    assert torch.equal(noisy, noisy_copies(pixels, expected, 1, same))
    error = ((noisy + 0.5) / 2 - pixels).square().mean()
    torch.testing.assert_close(score.loss, error)
    torch.testing.assert_close(score.accuracy, 1 - error / (noisy - pixels).square().mean())


def test_the_classifiers_loss_compares_its_answers_for_denoised_and_clean(classifier):
    model, weight = Half(), 0.7
    alone = Denoising(0.2, 0.6).score(model, batch()).loss
    both = Denoising(0.2, 0.6, weight=weight, classifier=classifier).score(model, batch()).loss
    with torch.no_grad():
        seen = classifier(batch().pixels).argmax(1)
        denoised = ((model.seen[0] + 0.5) / 2).clamp(0, 1)
        expected = functional.cross_entropy(classifier(denoised), seen)
    torch.testing.assert_close(both - alone, weight * expected)


def test_the_classifier_is_never_trained(classifier, train, tmp_path):
    before = models.fingerprint(classifier)
    path = train(classifier=classifier, weight=0.1)
    assert models.fingerprint(classifier) == before
    plan = models.read(path).description.notes["training"]
    assert plan["method"] == {"name": "denoising", "low": 0.1, "high": 0.5, "weight": 0.1, "classifier": before}


@pytest.mark.slow
def test_it_learns_more_than_the_best_linear_estimate(bars, tmp_path):
    settings = replace(DENOISING, epochs=30, batch=20)
    out = tmp_path / "d.safetensors"
    train_denoiser(bars, sigmas=(0.2, 0.5), options=SMALL, settings=settings, out=out)
    denoiser = models.load_denoiser(out)
    clean = torch.from_numpy(bars.pixels(range(60)))
    noisy = clean + 0.4 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    spread, mean = clean.var(), clean.mean()
    linear = mean + spread / (spread + 0.4**2) * (noisy - mean)
    with torch.no_grad():
        found = functional.mse_loss(denoiser(noisy, 0.4), clean)
    assert found < functional.mse_loss(linear, clean) / 2


def test_the_checkpoint_says_how_it_was_made(train, bars):
    path = train(validation=0.2)
    denoiser = models.load_denoiser(path)
    described = denoiser.description
    assert described.denoises
    assert described.notes["sigmas"] == [0.1, 0.5]
    assert described.notes["training"]["data"]["fingerprint"] == bars.fingerprint
    assert described.notes["training"]["validation"] == 0.2
    lines = [json.loads(line) for line in metrics_path(path).read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["validation"]["sigmas"] == pytest.approx([0.1, 0.3, 0.5])
    assert lines[-1]["validation"]["images"] == 12
    assert lines[-1]["images"] == 48
    quieter, *_, louder = lines[-1]["validation"]["psnr"]
    assert quieter > louder


def test_images_of_another_split_may_be_watched(train, bars, tmp_path):
    """Looking makes no other run: the weights and the plan are those of one that was not watched."""
    watched = train(validation=bars.take(range(5)))
    plan = models.read(watched).description.notes["training"]
    assert "validation" not in plan
    lines = [json.loads(line) for line in metrics_path(watched).read_text().splitlines()]
    assert {line["validation"]["images"] for line in lines} == {5}
    plain = train(out=tmp_path / "plain.safetensors")
    assert models.fingerprint(plain) == models.fingerprint(watched)
    other = replace(bars, images=np.zeros((60, 3, 8, 8), np.float32))
    with pytest.raises(RequestError, match="have other shape than those to train on"):
        train(validation=other, out=tmp_path / "other.safetensors")


def test_a_denoiser_to_begin_with(train, tmp_path):
    first = train()
    start = models.load_denoiser(first)
    still = replace(QUICK, epochs=1, lr=1e-7, ema=0.0)
    again = train(start=start, options=None, out=tmp_path / "again.safetensors", settings=still)
    found = models.load_denoiser(again)
    assert found.description.options == start.description.options
    assert found.description.notes["training"]["start"] == models.fingerprint(start)
    pairs = zip(found.state_dict().values(), start.state_dict().values(), strict=True)
    assert 0 < max(float((one - other).abs().max()) for one, other in pairs) < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigmas": (0.0, 0.5)}, "low: expected a number above 0, got 0.0"),
        ({"sigmas": (0.5, 0.1)}, "low: expected at most high=0.1, got 0.5"),
        ({"weight": 0.1}, "needs both a classifier and a weight above 0; got weight 0.1 and no classifier"),
        ({"options": {"depth": 3}}, "no option depth"),
        ({"architecture": "resnet20", "options": None}, "'resnet20' is a classifier, no denoiser"),
        ({"validation": 1.5}, "validation: expected a share between 0 and 1"),
        ({"settings": replace(QUICK, device="cuda:77")}, "device 'cuda:77' cannot be used"),
    ],
)
def test_what_cannot_be_trained_is_refused_first(train, tmp_path, changes, message):
    with pytest.raises(RequestError, match=message):
        train(**changes)
    assert not list(tmp_path.iterdir())


def test_parts_for_other_images_are_refused(train, classifier, tmp_path):
    other = models.create(Description(architecture="small-cnn", classes=3, input_shape=(3, 8, 8)))
    with pytest.raises(RequestError, match=r"classifier is 'small-cnn' for images of shape \(3, 8, 8\)"):
        train(classifier=other, weight=0.1)
    start = models.create_denoiser(Description(architecture="unet", classes=0, input_shape=(3, 8, 8), options=SMALL))
    with pytest.raises(RequestError, match=r"to begin with is for images \(3, 8, 8\) of 0 classes"):
        train(start=start)
    with pytest.raises(RequestError, match="got weight 0 and a classifier"):
        train(classifier=classifier)


def test_bf16_and_channels_last_train_it_too(train):
    path = train(settings=replace(QUICK, precision="bf16", channels_last=True))
    tensors = models.read(path).tensors
    assert all(np.isfinite(tensor.numpy()).all() for tensor in tensors.values())
