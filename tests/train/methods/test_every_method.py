"""What holds for every training method; the table has a row for each."""

import json
from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from sigmax import data, models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train import Batch, Examples, Settings, train_classifier
from sigmax.train.loop.noisy import Share, SharedGenerator
from sigmax.train.loop.precision import computed
from sigmax.train.methods.own_noise import OwnNoise
from sigmax.train.methods.registry import CIFAR10, known, make_method, method_preset
from tests.train.methods.table import ANY_NOISE, NAMES, ROWS, TEACHERS, VARIANTS, quick

QUICK = Settings(epochs=4, batch=16, lr=0.05)


def test_every_method_has_a_row_and_a_summary():
    assert list(known()) == NAMES
    for name, method in known().items():
        assert method.kind.name == name
        assert method.summary.endswith(".")


@pytest.mark.parametrize(("name", "wrong", "message"), [(n, *case) for n in NAMES for case in ROWS[n].wrong])
def test_wrong_hyper_parameters_are_refused_by_name(name, wrong, message):
    with pytest.raises(RequestError, match=message):
        quick(name, wrong.get("sigma", 0.3), **{key: value for key, value in wrong.items() if key != "sigma"})


@pytest.mark.parametrize("name", NAMES)
def test_presets_make_methods_whose_copies_divide_the_batch(name):
    for sigma in (0.25, 0.5, 1.0):
        preset = method_preset("cifar10", name, sigma)
        method = quick(name, sigma, **preset.fields)
        assert method.sigma == sigma
        assert preset.settings == CIFAR10
        assert preset.settings.batch % method.copies == 0
        assert preset.architecture in models.names()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_plan_is_plain_and_holds_every_hyper_parameter(variant):
    method = quick(variant)
    plan = method.plan()
    assert json.loads(json.dumps(plan)) == plan
    # Gaussian noise is what every plan meant before there was another, so it goes without saying.
    assert {"name", *(f.name for f in fields(method) if f.init)} - {"noise"} == set(plan)
    with pytest.raises(RequestError, match="does not divide it"):
        quick("gaussian", copies=7).images(16)


def batch_of(count=12, *, seed=0, sigma=None, epoch=3, side=4):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.rand(count, 1, side, side, dtype=torch.float64, generator=generator)
    own = torch.Generator().manual_seed(seed)
    return Batch(pixels, torch.arange(count) % 3, torch.arange(count), epoch, own, sigma)


class Watched(nn.Module):
    """A small smooth network, without batch statistics; keeps what it was shown, and in which mode."""

    def __init__(self, side=4):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(side * side, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        self.seen, self.modes = [], []

    def forward(self, images):
        self.seen.append(images.detach())
        self.modes.append(self.training)
        return self.body(images)


def stepped(variant, batch, network=None, **hyper):
    """The method's score of the batch, as in the middle of a run."""
    method, network = quick(variant, **hyper), network or Watched()
    if variant in TEACHERS:
        method = quick(variant, **{TEACHERS[variant]: Watched().requires_grad_(False)}, **hyper)
    if isinstance(method, OwnNoise):
        method.begin_epoch(network, Examples(batch.pixels, batch.targets), 0)
    return method.score(network.train(), batch)


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_randomness_comes_from_the_batchs_generator(variant):
    first, again, other = (stepped(variant, batch_of(seed=seed)).loss for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_leaves_the_network_as_it_was(variant):
    network = Watched()
    before = [weight.detach().clone() for weight in network.parameters()]
    loss, accuracy = stepped(variant, batch_of(), network)
    assert network.training
    assert network.modes[-1], "what is learned from is computed in training mode"
    assert all(weight.grad is None and weight.requires_grad for weight in network.parameters())
    assert all(torch.equal(*pair) for pair in zip(before, network.parameters(), strict=True))
    assert loss.isfinite()
    assert 0 <= accuracy <= 1
    loss.backward()
    assert all(weight.grad.isfinite().all() and weight.grad.any() for weight in network.parameters())


@pytest.mark.parametrize("name", ANY_NOISE)
def test_every_input_may_have_a_noise_of_its_own(name):
    sigma = torch.linspace(0.1, 2, 20, dtype=torch.float64)
    network, given = Watched(side=16), batch_of(20, sigma=sigma, side=16)
    stepped(name, given, network)
    noisy = next(images for images in network.seen if not torch.equal(images, given.pixels))  # before any attack
    noise = noisy.unflatten(0, (-1, 20)) - given.pixels
    assert noise.flatten(2).std(dim=2).mean(dim=0).tolist() == pytest.approx(sigma.tolist(), rel=0.2)
    apart = torch.corrcoef(noise.flatten(1)).view(len(noise), -1).triu(1)
    assert apart.abs().max() < 0.1, "every copy has its own noise"
    same = torch.full((12,), 0.3, dtype=torch.float64)
    assert stepped(name, batch_of(sigma=same)).loss.item() == pytest.approx(stepped(name, batch_of()).loss.item())


@pytest.mark.parametrize("variant", VARIANTS)
def test_processes_that_share_a_batch_score_it_as_one_would(variant):
    """Each samples the noise of the whole batch and keeps its own; the losses weighed by the shares add up."""
    whole = batch_of(12)
    expected = stepped(variant, whole)
    parts = []
    for first, last in ((0, 5), (5, 12)):
        shared = SharedGenerator()
        shared.manual_seed(0)
        shared.share = Share(first, last, 12)
        mine = slice(first, last)
        part = replace(
            whole,
            pixels=whole.pixels[mine],
            targets=whole.targets[mine],
            indices=torch.arange(last - first),
            generator=shared,
        )
        parts.append((last - first, stepped(variant, part)))
    for which in ("loss", "accuracy"):
        total = sum(count * getattr(score, which) for count, score in parts) / 12
        assert total.item() == pytest.approx(getattr(expected, which).item(), abs=1e-9)


@pytest.mark.parametrize("gain", [30.0, 1e5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sure_answers_leave_everything_finite(variant, gain):
    """Right or wrong, and whether the copies of an input agree or not: noise this large turns them around."""
    network = Watched()
    with torch.no_grad():
        network.body[-1].weight *= gain
    loss = stepped(variant, batch_of(), network).loss
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad.isfinite().all() for weight in network.parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_networks_of_bfloat16_are_learned_from_in_full(variant):
    network = computed(Watched().float(), Settings(precision="bf16", channels_last=True), torch.device("cpu"))
    given = batch_of()
    given = replace(given, pixels=given.pixels.float())
    method = quick(variant, **({TEACHERS[variant]: Watched().float()} if variant in TEACHERS else {}))
    if isinstance(method, OwnNoise):
        method.begin_epoch(network, Examples(given.pixels, given.targets), 0)
    loss = method.score(network.train(), given).loss
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(weight.grad.isfinite().all() for weight in network.parameters())


class Killed(BaseException):
    """Stands for a process that was ended."""


def train(bars, out, variant, **more):
    given = {"options": {"width": 4}, "settings": QUICK, **more}
    method = quick(variant)
    path = train_classifier(bars, sigma=0.3, out=out, method=lambda _: method, **given)
    return models.fingerprint(path), method


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_cut_short_ends_as_one_left_alone(bars, tmp_path, variant):
    """Killed after an epoch, and within one: weights and what the method remembers are the same, to the bit."""
    weights, method = train(bars, tmp_path / "whole.safetensors", variant)

    def after_an_epoch(report):
        if report.epoch == 2:
            raise Killed

    def within_one(done, total):
        if done == total * 5 // 8:
            raise Killed

    for kind, stop in (("epoch", {"on_epoch": after_an_epoch}), ("step", {"on_step": within_one})):
        out = tmp_path / f"{kind}.safetensors"
        with pytest.raises(Killed):
            train(bars, out, variant, **stop)
        resumed, again = train(bars, out, variant)
        assert resumed == weights
        assert torch.equal(flat(again.state_dict()), flat(method.state_dict()))


def flat(state):
    """All tensors of a method's state in one."""
    tensors = [flat(value) if isinstance(value, dict) else value.flatten() for value in state.values()]
    return torch.cat([torch.empty(0), *tensors])


@pytest.mark.parametrize("name", NAMES)
def test_denoised_training(bars, tmp_path, name):
    torch.manual_seed(0)
    options = {"width": 8, "multipliers": (1,), "blocks": 1, "attention": ()}
    denoiser = models.create_denoiser(
        Description(architecture="unet", classes=0, input_shape=(1, 8, 8), options=options)
    )
    before = models.fingerprint(denoiser)
    settings = replace(QUICK, epochs=2)
    found, _ = train(bars, tmp_path / "net.safetensors", name, denoiser=denoiser, settings=settings)
    plain, _ = train(bars, tmp_path / "plain.safetensors", name, settings=settings)
    assert found != plain
    assert models.fingerprint(denoiser) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_the_digits(tmp_path, name):
    """At noise 0.4, of the 360 test digits, by a vote of 50 noises."""
    digits, row = data.load("digits", "train"), ROWS[name]
    hyper = dict(row.digits)
    if name in TEACHERS:
        out = tmp_path / "gaussian.safetensors"
        hyper[TEACHERS[name]] = train_classifier(digits, sigma=0.4, settings=row.settings, out=out)
    path = train_classifier(
        digits,
        sigma=0.4,
        method=lambda sigma: make_method(name, sigma, hyper),
        settings=row.settings,
        out=tmp_path / "digits.safetensors",
    )
    test = data.load("digits", "test")
    pixels = torch.from_numpy(test.pixels(range(len(test))))
    noise = torch.randn(50, *pixels.shape, generator=torch.Generator().manual_seed(0))
    model, _ = models.load(path)
    with torch.inference_mode():
        votes = torch.stack([model(pixels + 0.4 * one).argmax(1) for one in noise])
    assert (votes.mode(dim=0).values.numpy() == test.labels).mean() > row.learned
