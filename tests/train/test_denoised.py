"""Denoised training: of classifiers, routers and experts, with a denoiser that stays as it is or is tuned too."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.jobs.label import Labels, make_labels
from sigmax.models import Description
from sigmax.systems import fingerprint
from sigmax.train import (
    Batch,
    GaussianTraining,
    Mixed,
    RoutedConsistency,
    Settings,
    fine_tune,
    train_classifier,
    train_router,
)
from sigmax.train.denoised import DenoisedTraining, answers
from sigmax.train.loop.network import denoiser_path
from sigmax.train.methods.data_dependent import with_moving_noise

QUICK = Settings(epochs=3, batch=20, lr=0.05)
TUNING = Settings(epochs=2, batch=16, optimiser="adamw", lr=0.003, schedule="constant")


def denoiser(seed=0):
    torch.manual_seed(seed)
    options = {"width": 8, "multipliers": (1,), "blocks": 1, "attention": (), "dropout": 0.5}
    made = models.create_denoiser(Description(architecture="unet", classes=0, input_shape=(1, 8, 8), options=options))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.05)
    return made


def network(classes=3, seed=0):
    torch.manual_seed(seed)
    described = Description(architecture="small-cnn", classes=classes, input_shape=(1, 8, 8), options={"width": 4})
    return models.create(described)


def test_only_the_network_is_trained_and_the_denoiser_stays_in_eval_mode():
    d, net = denoiser(), network()
    both = DenoisedTraining(d, net, 0.25).train()
    noisy = torch.randn(4, 1, 8, 8)
    assert {id(p) for p in both.parameters()} == {id(p) for p in net.parameters()}
    both(noisy).sum().backward()
    assert all(p.grad is None for p in d.parameters())
    assert all(p.grad is not None for p in net.parameters())
    with torch.no_grad():
        expected = net(d(noisy, 0.25).clamp(0, 1))  # dropout would sample, and differ
        torch.testing.assert_close(both(noisy), expected)
        torch.testing.assert_close(both(noisy, 0.5), net(d(noisy, 0.5).clamp(0, 1)))


def test_an_attack_on_the_images_goes_through_the_denoiser():
    d, net = denoiser(), network()
    noisy = torch.rand(2, 1, 8, 8, requires_grad=True)
    (found,) = torch.autograd.grad(DenoisedTraining(d, net, 0.25)(noisy).sum(), noisy)
    (expected,) = torch.autograd.grad(sx.Denoised(d, net)(noisy, 0.25).sum(), noisy)
    torch.testing.assert_close(found, expected)


def test_models_that_take_sigma_get_it_in_any_wrapping():
    class Wrapped(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *inputs):
            return self.module(*inputs)

    d, net, noisy = denoiser(), network(), torch.rand(2, 1, 8, 8)
    sigma = torch.tensor([0.1, 0.5])
    with torch.no_grad():
        expected = sx.Denoised(d, net).eval()(noisy, sigma)
        torch.testing.assert_close(answers(Wrapped(DenoisedTraining(d, net, None)), noisy, sigma), expected)
        torch.testing.assert_close(answers(net, noisy, sigma), net(noisy))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "net.safetensors"


def test_a_classifier_is_trained_on_denoised_images(bars, out):
    d = denoiser()
    before = models.fingerprint(d)
    seen = []

    class Watching(nn.Module):
        takes_sigma = True

        def __init__(self):
            super().__init__()
            self.inner = d

        def forward(self, noisy, sigma):
            seen.append(sigma)
            return self.inner(noisy, sigma)

    train_classifier(bars, options={"width": 4}, sigma=0.25, denoiser=Watching(), out=out, settings=QUICK)
    assert set(seen) == {0.25}
    assert models.fingerprint(d) == before
    model, described = models.load(out)
    assert isinstance(model, models.Classifier)
    assert len(described.notes["training"]["denoiser"]) == 32
    plain = train_classifier(
        bars, options={"width": 4}, sigma=0.25, out=out.with_name("plain.safetensors"), settings=QUICK
    )
    assert models.fingerprint(plain) != models.fingerprint(out)
    with pytest.raises(RequestError, match="denoiser is .* there and not given here"):
        train_classifier(bars, options={"width": 4}, sigma=0.25, out=out, settings=QUICK)


def test_one_network_for_several_sigmas(bars, out):
    """Each image is denoised at the noise it was given, and the check at the noise it asks about."""
    seen, reports = [], []

    class Watching(nn.Module):
        takes_sigma = True

        def forward(self, noisy, sigma):
            seen.append(sigma)
            return noisy

    train_classifier(
        bars,
        options={"width": 4},
        sigma=0.5,
        method=lambda _: Mixed((0.125, 0.5)),
        denoiser=Watching(),
        out=out,
        settings=replace(QUICK, epochs=1),
        validation=0.2,
        on_epoch=reports.append,
    )
    trained = [sigma for sigma in seen if isinstance(sigma, torch.Tensor)]
    assert set(torch.cat(trained).tolist()) == {0.125, 0.5}
    assert {sigma for sigma in seen if isinstance(sigma, float)} == {0.5}
    assert 0 <= reports[-1].validation["smoothed"] <= 1


def test_data_dependent_noise_is_refused(bars, out):
    with pytest.raises(RequestError, match="denoised training has one noise for all images, and data-dependent"):
        train_classifier(
            bars, sigma=0.25, denoiser=denoiser(), out=out, method=lambda s: with_moving_noise(GaussianTraining(s), {})
        )


def tune(bars, out, settings=QUICK, **more):
    asked = {"start": network(seed=5), "denoiser": denoiser(), "tune_denoiser": True, **more}
    return train_classifier(bars, sigma=0.25, out=out, settings=settings, **asked)


@pytest.mark.parametrize("settings", [QUICK, replace(QUICK, ema=0.9, precision="bf16", channels_last=True)])
def test_the_denoiser_is_tuned_too_and_written_beside_the_classifier(bars, out, settings):
    first = denoiser()
    before = models.fingerprint(first)
    tune(bars, out, settings, denoiser=first, validation=0.2)
    assert models.fingerprint(first) == before, "a copy is tuned"
    tuned, (model, described) = models.load_denoiser(denoiser_path(out)), models.load(out)
    assert denoiser_path(out).name == "net.denoiser.safetensors"
    assert described.notes["denoiser"] == models.fingerprint(tuned) != before
    assert described.notes["training"]["denoiser"] == before
    assert described.notes["training"] == tuned.description.notes["training"]
    for name, parameter in tuned.named_parameters():
        assert not torch.equal(parameter, dict(first.named_parameters())[name]), name
    assert models.fingerprint(model) != models.fingerprint(network(seed=5))


def test_both_are_trained_by_the_loss_of_the_pair():
    """Every gradient is that of cross-entropy through denoiser and network, each image at its own noise."""
    d, net = denoiser().requires_grad_(True), network()
    noisy, sigma, classes = torch.rand(6, 1, 8, 8), torch.tensor([0.1, 0.5] * 3), torch.arange(6) % 3
    both = DenoisedTraining(d, net, 0.25, joint=True).eval()  # without dropout, to be compared
    pair = sx.Denoised(d, net).eval()
    for noise in ((), (sigma,)):
        weights = list(both.parameters())
        assert {id(w) for w in weights} == {id(w) for part in (d, net) for w in part.parameters()}
        found = torch.autograd.grad(functional.cross_entropy(both(noisy, *noise), classes), weights)
        logits = pair(noisy, *(noise or (0.25,)))
        expected = torch.autograd.grad(functional.cross_entropy(logits, classes), weights)
        assert any(bool(gradient.any()) for gradient in found)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
    both.train()
    assert d.training, "its dropout is part of its training"


def test_tuning_both_goes_on_where_it_was_cut_short(bars, out, monkeypatch):
    whole = out.with_name("whole.safetensors")
    tune(bars, whole)

    def stop(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(bars, out, on_epoch=stop)
    assert not denoiser_path(out).exists()
    save = models.save

    def fail(path, model):
        if path == out:
            raise KeyboardInterrupt
        return save(path, model)

    with monkeypatch.context() as context:  # between its two files
        context.setattr(models, "save", fail)
        with pytest.raises(KeyboardInterrupt):
            tune(bars, out)
    assert denoiser_path(out).exists()
    assert not out.exists()
    tune(bars, out, on_epoch=lambda _: pytest.fail("nothing is left to train"))
    for path in (out, denoiser_path(out)):
        there = whole if path == out else denoiser_path(whole)
        assert models.fingerprint(path) == models.fingerprint(there)
    assert not list(out.parent.glob("*.partial"))


def test_what_another_run_tuned_is_not_overwritten(bars, out):
    tune(bars, out)
    with pytest.raises(RequestError, match="made by another run: tunes_denoiser is True there and not given"):
        tune(bars, out, tune_denoiser=False)
    out.unlink()
    with pytest.raises(RequestError, match=r"net\.denoiser\.safetensors exists and was made by another run"):
        tune(bars, out, replace(QUICK, epochs=1))


@pytest.mark.parametrize(("given", "message"), [(None, "none was given"), (nn.Identity(), "got a Identity")])
def test_what_cannot_be_saved_is_not_tuned(bars, out, given, message):
    with pytest.raises(RequestError, match=f"give one that can be saved.*{message}"):
        tune(bars, out, denoiser=given)
    assert not list(out.parent.iterdir())


def test_a_classifier_to_begin_with(bars, out):
    start = network(seed=5)
    train_classifier(bars, sigma=0.25, start=start, out=out, settings=replace(QUICK, epochs=1, lr=1e-6))
    model, described = models.load(out)
    assert described.options == {"width": 4}
    assert described.notes["training"]["start"] == models.fingerprint(start)
    pairs = zip(model.state_dict().values(), start.state_dict().values(), strict=True)
    moved = max(float((one - other).abs().max()) for one, other in pairs)
    assert 0 < moved < 1e-3
    larger = models.create(replace(start.description, input_shape=(1, 10, 10)))
    with pytest.raises(RequestError, match=r"for images \(1, 10, 10\) of 3 classes, and the data has \(1, 8, 8\) of 3"):
        train_classifier(bars, sigma=0.25, start=larger, out=out.with_name("other.safetensors"))


@pytest.fixture
def dual():
    """Two noise levels over one classifier, and a router, all with one denoiser."""
    d = denoiser()
    pair = sx.Denoised(d, network())
    router = sx.Smoothed(sx.Denoised(d, network(2, seed=1)), sigma=0.4, classes=2)
    return sx.Dual(router, [sx.Smoothed(pair, sigma=s, classes=3) for s in (0.1, 0.4)])


@pytest.mark.slow
def test_the_whole_workflow_of_dual_smoothing_with_one_denoiser(dual, bars, tmp_path):
    shared = dual.router.voters["base"].model.denoiser
    labels = make_labels(list(dual.experts), bars, tmp_path / "labels", n0=10, n=50, alpha=0.1)
    assert isinstance(labels, Labels)
    assert (labels.radii > 0).any(), "a router is trained on images that some expert certifies"
    out = tmp_path / "router.safetensors"
    train_router(
        bars,
        labels,
        architecture="small-cnn",
        options={"width": 4},
        sigma=0.4,
        denoiser=shared,
        out=out,
        settings=replace(QUICK, batch=8),
        held_out=0.3,
    )
    router = sx.Smoothed(sx.Denoised(shared, models.load(out)[0]), sigma=0.4, classes=2)
    tuned = fine_tune(sx.Dual(router, dual.experts), bars, tmp_path / "tuned", settings=TUNING, n=20)
    models_of = [expert.voters["base"].model for expert in tuned.experts]
    assert all(model.denoiser is shared for model in models_of)
    assert models_of[0].classifier is models_of[1].classifier
    before = dual.experts[0].voters["base"].model.classifier
    assert models.fingerprint(models_of[0].classifier) != models.fingerprint(before)
    again = sx.load(tuned.save(tmp_path / "system"))
    assert fingerprint(again) == fingerprint(tuned)


def test_every_noisy_copy_is_denoised_by_the_noise_of_its_route(bars):
    """Both copies of an image are denoised at the same noise."""

    class Watching(nn.Module):
        takes_sigma = True

        def forward(self, noisy, sigma):
            seen.append(sigma)
            return noisy.flatten(1)[:, :3].requires_grad_()

    seen, routes = [], torch.tensor([1, 0, 0, 1, 1])
    targets = torch.stack([torch.zeros(5).long(), routes], dim=1)
    pixels = torch.from_numpy(bars.pixels(range(5)))
    batch = Batch(pixels, targets, torch.arange(5), 0, torch.Generator().manual_seed(0))
    RoutedConsistency((0.1, 0.4)).score(Watching(), batch)
    assert seen[0].tolist() == pytest.approx([0.4, 0.1, 0.1, 0.4, 0.4] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("consistency", [0.0, 5.0])
def test_fine_tuning_minimises_the_loss_of_denoised_images(dual, bars, tmp_path, consistency):
    settings = replace(TUNING, epochs=15)
    tuned = fine_tune(dual, bars, tmp_path / "tuned", settings=settings, n=20, consistency=consistency)
    clean, classes = torch.from_numpy(bars.pixels(range(60))), torch.from_numpy(np.array(bars.labels))
    noisy = clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))

    def loss(system):
        with torch.no_grad():
            return nn.functional.cross_entropy(system.experts[0].voters["base"].model(noisy, 0.1), classes)

    assert loss(tuned) < loss(dual)


def test_a_denoiser_that_is_a_function_is_refused(bars, tmp_path):
    pair = sx.Denoised(lambda noisy: noisy, network())
    router = sx.Smoothed(network(2), sigma=0.4, classes=2)
    dual = sx.Dual(router, [sx.Smoothed(pair, sigma=s, classes=3) for s in (0.1, 0.4)])
    with pytest.raises(RequestError, match="got a plain function"):
        fine_tune(dual, bars, tmp_path / "tuned", settings=TUNING)
