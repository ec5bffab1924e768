import math
import shutil

import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.train import Settings, train_classifier
from sigmax.train.loop.precision import Computed, Update, computed

CPU = torch.device("cpu")


class Spy(nn.Module):
    """A convolution that keeps what it was given and made."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Conv2d(3, 4, 3)

    def forward(self, images):
        self.given, self.made = images, self.inner(images)
        return self.made.mean(dim=(2, 3))


def test_nothing_special_is_the_model_itself():
    model = Spy()
    assert computed(model, Settings(), CPU) is model


@pytest.mark.parametrize(("precision", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_network_is_computed_in_half_and_answers_in_full(precision, kind):
    model = Spy()
    images = torch.rand(5, 3, 8, 8, requires_grad=True)
    logits = computed(model, Settings(precision=precision), CPU)(images)
    assert model.made.dtype == kind
    assert model.inner.weight.dtype == torch.float32
    assert logits.dtype == torch.float32
    assert torch.allclose(logits, model(images), atol=0.01)
    (slope,) = torch.autograd.grad(logits.sum(), images)  # as an attack asks for it
    assert slope.dtype == torch.float32
    assert model.inner.weight.grad is None


def test_channels_last_reaches_weights_and_inputs_and_changes_nothing_else():
    model = Spy()
    images = torch.rand(5, 3, 8, 8)
    before = model(images)
    found = computed(model, Settings(channels_last=True), CPU)(images)
    assert model.given.is_contiguous(memory_format=torch.channels_last)
    assert not model.given.is_contiguous()
    assert model.inner.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(found, before, atol=1e-6)


def test_modes_and_weights_are_the_models_own():
    model = Spy()
    wrapped = computed(model, Settings(precision="bf16"), CPU)
    wrapped.eval()
    assert not model.training
    assert [id(weight) for weight in wrapped.parameters()] == [id(weight) for weight in model.parameters()]
    assert set(wrapped.state_dict()) == {"model.inner.weight", "model.inner.bias"}


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for the CPU by g++")
@pytest.mark.slow
def test_a_compiled_network_answers_the_same():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    wrapped = computed(model, Settings(compile=True), CPU)
    images = torch.rand(5, 3, 8, 8)
    wrapped(images).square().sum().backward()
    slope = model[1].weight.grad.clone()
    model.zero_grad()
    model(images).square().sum().backward()
    assert torch.allclose(slope, model[1].weight.grad, atol=1e-5)
    assert isinstance(wrapped, Computed)
    assert set(wrapped.state_dict()) == {"model.1.weight", "model.1.bias"}


def descend(settings, losses):
    """Two numbers as weights, updated by each loss in turn."""
    weights = nn.Parameter(torch.tensor([3.0, 4.0]))
    update = Update(settings.make_optimiser([weights]), settings, CPU)
    for loss in losses:
        update(loss(weights), 0.1)
    return weights.detach(), update


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("clip", "length"), [(0.0, 50.0), (1.0, 1.0), (60.0, 50.0)])
def test_a_gradient_is_clipped_to_its_norm(clip, length, precision):
    """The loss 5 |w|^2 has the gradient 10 w, of length 50 at (3, 4)."""
    settings = Settings(momentum=0.0, weight_decay=0.0, clip=clip, precision=precision)
    found, _ = descend(settings, [lambda w: 5 * w.square().sum()])
    expected = torch.tensor([3.0, 4.0]) - 0.1 * length * torch.tensor([0.6, 0.8])
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_step_whose_gradients_overflow_is_left_out():
    settings = Settings(momentum=0.0, weight_decay=0.0, precision="fp16")
    found, update = descend(settings, [lambda w: w.sum() * torch.tensor(3e38)])
    assert found.tolist() == [3.0, 4.0]
    assert update.scaler.get_scale() == 2.0**15
    kept = update.state_dict()
    _, other = descend(settings, [])
    other.load_state_dict(kept)
    assert other.scaler.get_scale() == 2.0**15
    assert "scaler" not in Settings().plan()


@pytest.mark.parametrize(
    ("architecture", "changed"),
    [
        ("resnet20", {"precision": "bf16"}),
        ("small-cnn", {"precision": "fp16", "clip": 1.0}),
        ("resnet20", {"channels_last": True, "ema": 0.9}),
        ("small-cnn", {"schedule": "one-cycle", "nesterov": True}),
    ],
)
def test_every_way_learns_and_is_saved_as_usual(bars, tmp_path, architecture, changed):
    path = train_classifier(
        bars,
        architecture=architecture,
        sigma=0.25,
        settings=Settings(epochs=15, batch=16, lr=0.05, **changed),
        out=tmp_path / "bars.safetensors",
    )
    model, described = models.load(path)
    with torch.inference_mode():
        found = model(torch.from_numpy(bars.pixels(range(60)))).argmax(1)
    assert (found.numpy() == bars.labels).mean() > 0.9
    assert described.notes["training"]["settings"].items() >= changed.items()
    assert all(weight.is_contiguous() and weight.dtype == torch.float32 for weight in model.parameters())
    assert math.isfinite(sum(weight.sum().item() for weight in model.parameters()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_gpu_is_not_asked_for_a_number_in_a_step(precision):
    settings = Settings(precision=precision, clip=1.0, channels_last=True, device="cuda")
    device = settings.torch_device()
    model = Spy().to(device)
    network = computed(model, settings, device)
    update = Update(settings.make_optimiser(model.parameters()), settings, device)
    images = torch.rand(8, 3, 8, 8, device=device)
    update(network(images).square().mean(), 0.1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            update(network(images).square().mean(), 0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
