"""The hash of weights that noise is addressed by, and the checksum that says on a GPU whether it is still theirs."""

import hashlib

import pytest
import torch
from torch import nn

from sigmax.models import content
from sigmax.models.content import checksums, weights_of

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
DEVICES = ["cpu", CUDA]
KINDS = [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.complex64, torch.complex128]


@pytest.fixture
def hashed(monkeypatch):
    """Every hash that is made, where the machine's processor counts as an accelerator."""
    made, plain = [], content._hash
    monkeypatch.setattr(content, "HERE", "nowhere")
    monkeypatch.setattr(content, "_hash", lambda tensors: made.append(plain(tensors)) or made[-1])
    return made


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))


def swap(tensor):
    """Two numbers change places, which leaves a plain sum as it was."""
    flat = tensor.data.view(-1)
    flat[:2] = flat[:2].flip(0).clone()


def exchange(one, other):
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)


CHANGES = {
    "counted": lambda model: model[0].weight.detach().mul_(2),
    "not counted": lambda model: model[0].weight.data.mul_(2),
    "exchanged": lambda model: swap(model[3].weight),
    "the last bit": lambda model: model[3].bias.data.view(torch.int32)[-1].bitwise_xor_(1),
    "a buffer": lambda model: model[1].running_mean.add_(1),
    "a sign of zero": lambda model: model[1].running_mean.neg_(),
    "a tensor replaced": lambda model: setattr(model[0], "bias", nn.Parameter(model[0].bias.detach() + 1)),
    "tensors of one shape exchanged": lambda model: exchange(model[1].weight.data, model[1].bias.data),
}


def test_the_hash_is_made_once_for_the_same_weights(hashed):
    model = net()
    assert len({weights_of(model) for _ in range(3)}) == 1
    assert weights_of(net()) == hashed[0]
    assert len(hashed) == 2  # one a model


@pytest.mark.parametrize("name", CHANGES)
def test_no_change_of_weights_escapes_the_checksum(name, hashed):
    model = net()
    before = weights_of(model)
    CHANGES[name](model)
    after = weights_of(model)
    assert after != before
    assert after == content._hash([*model.parameters(), *model.buffers()])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", KINDS)
def test_every_kind_of_number_has_a_checksum(dtype, device):
    generator = torch.Generator().manual_seed(0)
    tensor = (2 * torch.rand(6, 7, generator=generator)).to(dtype).to(device)
    found = checksums([tensor.t()])
    assert found == checksums([tensor.t().clone()]) == checksums([tensor.t().cpu()])
    assert found != checksums([tensor])  # the same numbers in another shape
    assert checksums([tensor[:0], torch.ones((), device=device)]) != checksums([])


def test_what_lies_far_apart_in_a_large_tensor_is_told_apart(monkeypatch):
    monkeypatch.setattr(content, "CHUNK", 8)
    tensor = torch.arange(40.0)
    exchanged = torch.cat([tensor[8:16], tensor[:8], tensor[16:]])
    assert checksums([tensor]) != checksums([exchanged])
    for tensor in (torch.arange(40.0), torch.arange(40) % 2 * 2.0 - 1):  # the latter differ in their sign alone
        for i in range(len(tensor)):
            for j in range(i):
                exchanged = tensor.clone()
                exchanged[[i, j]] = tensor[[j, i]]
                assert (checksums([tensor]) == checksums([exchanged])) is bool(tensor[i] == tensor[j])
    assert checksums([tensor]) == checksums([tensor.clone()])


@pytest.mark.parametrize("device", DEVICES)
def test_the_hash_is_that_of_the_bytes_wherever_the_weights_lie(device):
    layer = nn.Linear(3, 2).to(device)
    digest = hashlib.sha256()
    for tensor in layer.parameters():
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode() + tensor.detach().cpu().numpy().tobytes())
    assert weights_of(layer) == weights_of(layer) == digest.hexdigest()
