"""Weights kept as bf16: half the room, nothing lost on the way, and no network changed unawares."""

import pytest
import torch
from safetensors.torch import load_file

from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.models.checkpoints.bfloat16 import as_bfloat16, restored


def network(seed=0, architecture="resnet18", **options):
    torch.manual_seed(seed)
    given = {
        "architecture": architecture,
        "classes": 10,
        "input_shape": (3, 8, 8),
        "options": options or {"width": 8},
    }
    return models.create(Description(**given))


def test_a_rounded_network_is_kept_in_half_the_room_and_comes_back_itself(tmp_path):
    model = network()
    models.save(tmp_path / "full.safetensors", model)
    models.round_weights(model)
    path = models.save(tmp_path / "half.safetensors", model, store="bf16")
    assert path.stat().st_size < 0.6 * (tmp_path / "full.safetensors").stat().st_size
    back, _ = models.load(path)
    assert models.fingerprint(path) == models.fingerprint(back) == models.fingerprint(model)
    x = torch.rand(4, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(back(x), model.eval()(x))
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.bfloat16, torch.float32, torch.int64}
    assert {p.dtype for p in back.parameters()} == {torch.float32}


def test_only_kernels_and_matrices_are_rounded_and_once_is_enough():
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    models.round_weights(model)
    once = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, tensor in once.items():
        exact = before[name].bfloat16().float() if before[name].ndim >= 2 else before[name]
        assert torch.equal(tensor, exact)
    models.round_weights(model)
    assert all(torch.equal(tensor, once[name]) for name, tensor in model.state_dict().items())


def test_what_bf16_cannot_hold_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(RequestError, match="bfloat16 cannot hold .* round the network first"):
        models.save(tmp_path / "half.safetensors", network(), store="bf16")
    with pytest.raises(RequestError, match="store must be one of fp32, bf16; got 'int8'"):
        models.save(tmp_path / "half.safetensors", network(), store="int8")
    assert list(tmp_path.iterdir()) == []


def test_infinite_and_whole_numbers_survive():
    tensors = {"a": torch.tensor([[1.0, -0.0], [2.0**-130, 3.0]]), "count": torch.tensor(3), "b": torch.rand(5)}
    tensors["a"] = tensors["a"].bfloat16().float()
    back = restored(as_bfloat16(tensors))
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())
    assert {name: tensor.dtype for name, tensor in back.items()} == {n: t.dtype for n, t in tensors.items()}


def capped_parameters(width, most):
    """Counted from the shape: a stem, four stages of two blocks, a projection where the stride is 2, the end."""
    first, *rest = [min(width * 2**stage, most) for stage in range(4)]

    def layer(channels, out, size=9):
        return size * channels * out + 2 * out

    total, channels = layer(3, first) + 4 * layer(first, first), first
    for out in rest:
        total += layer(channels, out) + 3 * layer(out, out) + layer(channels, out, size=1)
        channels = out
    return total + 10 * channels + 10


@pytest.mark.parametrize(("width", "most"), [(64, 256), (24, 128), (8, 64)])
def test_the_capped_resnet_has_its_size(width, most):
    model = models.build("resnet18-capped", classes=10, input_shape=(3, 32, 32), width=width, most=most)
    assert sum(parameter.numel() for parameter in model.parameters()) == capped_parameters(width, most)
    if most == 8 * width:
        plain = models.build("resnet18", classes=10, input_shape=(3, 32, 32), width=width).state_dict()
        assert {n: t.shape for n, t in plain.items()} == {n: t.shape for n, t in model.state_dict().items()}


def test_the_capped_resnet_sees_a_smaller_image_where_it_is_asked_to():
    torch.manual_seed(0)
    whole = models.build("resnet18-capped", classes=10, input_shape=(3, 16, 16), width=4, most=8).eval()
    half = models.build("resnet18-capped", classes=10, input_shape=(3, 32, 32), width=4, most=8, shrink=2).eval()
    half.load_state_dict(whole.state_dict())
    images = torch.rand(2, 3, 32, 32)
    averaged = images.unflatten(3, (16, 2)).unflatten(2, (16, 2)).mean(dim=(3, 5))
    with torch.no_grad():
        torch.testing.assert_close(half(images), whole(averaged))
    with pytest.raises(RequestError, match="shrink must be from 1 to the image's smaller side; got 40"):
        models.build("resnet18-capped", classes=10, input_shape=(3, 32, 32), shrink=40)


@pytest.mark.parametrize("store", ["fp32", "bf16"])
def test_a_network_laid_out_for_a_gpu_is_kept_like_any_other(tmp_path, store):
    plain, laid_out = network(), network()
    laid_out.to(memory_format=torch.channels_last)
    for model in (plain, laid_out):
        models.round_weights(model)
    models.save(tmp_path / "plain.safetensors", plain, store=store)
    models.save(tmp_path / "laid-out.safetensors", laid_out, store=store)
    assert (tmp_path / "plain.safetensors").read_bytes() == (tmp_path / "laid-out.safetensors").read_bytes()
