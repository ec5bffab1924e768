"""Converted checkpoints against what the original implementation computed."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models.denoisers import PUBLIC, Schedule, Trained, from_openai
from sigmax.models.denoisers.openai import converted, unet_config

pytest.importorskip("diffusers", reason="converted checkpoints are diffusers networks")

SMALL = {
    "improved": Trained(32, Schedule.cosine(4000), heads=4, timestep_scale=0.25),
    "guided": Trained(32, Schedule.linear(1000), head_channels=64),
}
FULL = {"improved": ("cifar10", 52_546_438), "guided": ("imagenet256", 552_814_086)}


@pytest.fixture
def fixtures(shared):
    return shared / "fixtures" / "openai-unet"


@pytest.mark.parametrize("name", SMALL)
def test_it_computes_what_the_original_does(fixtures, name):
    denoiser = from_openai(fixtures / f"{name}-small.safetensors", SMALL[name])
    io = {key: torch.from_numpy(value) for key, value in np.load(fixtures / f"{name}-small-io.npz").items()}
    with torch.no_grad():
        found = denoiser.network.unet(io["x"].float(), io["t"].float(), return_dict=False)[0]
    assert found.shape == io["y"].shape
    assert found.shape[1] == 6
    error = (found - io["y"]).abs().max() / io["y"].abs().max()
    assert error < 1e-4, float(error)
    torch.testing.assert_close(found, io["y"].float(), rtol=1e-4, atol=1e-4 * float(io["y"].abs().mean()))


@pytest.mark.parametrize("name", FULL)
def test_every_tensor_of_the_public_checkpoints_has_its_place(fixtures, name):
    preset, parameters = FULL[name]
    listed = json.loads((fixtures / f"{name}-full-keys.json").read_text())
    stored = {key: torch.empty(shape, device="meta") for key, shape in listed["tensors"].items()}
    config = unet_config(stored, PUBLIC[preset], source=name)
    tensors = converted(stored, config, source=name)  # refuses what is left over, lacking or of another shape
    assert sum(tensor.numel() for tensor in tensors.values()) == listed["parameters"] == parameters
    # Each of the attention's three-in-one tensors became three.
    assert len(tensors) == len(stored) + 2 * sum(".qkv." in key for key in stored)


def test_the_denoiser_takes_the_published_step(fixtures):
    """Denoised images against Carlini et al.'s formula, written out around the original's inputs and outputs."""
    denoiser = from_openai(fixtures / "improved-small.safetensors", SMALL["improved"])
    noisy = torch.rand(2, 3, 32, 32) + 0.5 * torch.randn(2, 3, 32, 32)
    abar = 0.706886**2  # the schedule's table: t = 1984 for sigma = 0.5
    x_t = 0.706886 * (2 * noisy - 1)
    with torch.no_grad():
        eps = denoiser.network.unet(x_t, torch.tensor([1984 / 4]), return_dict=False)[0][:, :3]
        expected = ((x_t - (1 - abar) ** 0.5 * eps) / 0.706886 + 1) / 2
        torch.testing.assert_close(denoiser(noisy, 0.5), expected, rtol=1e-4, atol=1e-4)
        each = denoiser(noisy, torch.tensor([0.25, 0.5]))
        torch.testing.assert_close(each[1:], denoiser(noisy[1:], 0.5), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(each[:1], denoiser(noisy[:1], 0.25), rtol=1e-3, atol=1e-3)


def test_it_certifies_and_refuses_noise_it_does_not_know(fixtures):
    denoiser = from_openai(fixtures / "guided-small.safetensors", SMALL["guided"])
    head = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    images = torch.rand(1, 3, 32, 32)
    f = sx.Smoothed(sx.Denoised(denoiser, head), sigma=0.5, classes=4, batch=16)
    assert len(f.certify(images, n0=8, n=16, alpha=0.1)) == 1
    loud = sx.Smoothed(sx.Denoised(denoiser, head), sigma=100.0, classes=4)
    with pytest.raises(RequestError, match=r"0.00500025 to 78.7036.*got 100"):
        loud.certify(images, n=100)


def changed(fixtures, tmp_path, change):
    tensors = load_file(fixtures / "improved-small.safetensors")
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "changed.safetensors")
    return tmp_path / "changed.safetensors"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("time_embed.0.weight"), "it lacks time_embed.0.weight, its first names are "),
        (lambda t: t.pop("middle_block.0.out_layers.0.bias"), "the file lacks mid_block.resnets.0.norm2.bias"),
        (lambda t: t.update({"encoder.0.weight": torch.zeros(1)}), "no place for encoder.0.weight"),
        (lambda t: t.update({"out.2.bias": torch.zeros(5)}), r"conv_out.bias \(5,\) instead of \(6,\)"),
        (lambda t: t.update({"label_emb.weight": torch.zeros(5)}), "needs the class"),
        (lambda t: t.pop("output_blocks.1.2.conv.weight") + t.pop("output_blocks.1.2.conv.bias").sum(), "enlarge"),
        (lambda t: t.update({"out.2.bias": torch.full((6,), torch.nan)}), "NaN"),
    ],
)
def test_another_layout_is_refused_with_the_first_differences(fixtures, tmp_path, change, message):
    with pytest.raises(RequestError, match=message):
        from_openai(changed(fixtures, tmp_path, change), SMALL["improved"])


def test_wrong_heads_are_refused(fixtures):
    with pytest.raises(RequestError, match=r"attention over \[64\] channels"):
        from_openai(fixtures / "improved-small.safetensors", Trained(32, Schedule.cosine(), head_channels=48))
    with pytest.raises(RequestError, match="either the number of attention heads or"):
        Trained(32, Schedule.cosine())
    with pytest.raises(RequestError, match="unknown training 'celeba'; known are: cifar10, imagenet256"):
        from_openai(fixtures / "improved-small.safetensors", "celeba")


def test_another_kind_of_network_is_refused(tmp_path):
    net = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    torch.save(net.state_dict(), tmp_path / "cnn.pt")
    with pytest.raises(RequestError, match="it lacks time_embed.0.weight, .*first names are network.features.0"):
        from_openai(tmp_path / "cnn.pt", "cifar10")
