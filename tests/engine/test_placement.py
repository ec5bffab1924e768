"""The caller's model is left where it was, in the layout it had, and is voted with as it is now."""

import copy
import pickle
from contextlib import suppress

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.voter import Voter, voting

X = torch.rand(3, 3, 10, 10, generator=torch.Generator().manual_seed(0))
ASKED = {"n0": 20, "n": 300, "alpha": 0.05}


def conv_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(800, 5))


def state(model):
    """Where every tensor of the model lies, and how."""
    tensors = (*model.parameters(), *model.buffers())
    return [(id(t), t.data_ptr(), t.stride(), t.device, t.requires_grad, t._version) for t in tensors]


def test_a_model_is_left_as_it_was_found():
    model = conv_net().train()
    before = state(model)
    f = sx.Smoothed(model, sigma=0.5, classes=5)
    laid_out = []
    model.register_forward_pre_hook(
        lambda m, _: laid_out.append(m[0].weight.is_contiguous(memory_format=torch.channels_last))
    )
    for _ in f.certifications(X, **ASKED, seed=0, ids=range(3)):
        assert state(model) == before
        assert model.training
    f.predict(X, n=100)
    assert state(model) == before
    assert laid_out
    assert all(laid_out)
    with suppress(ZeroDivisionError), voting(f.voters.values()):
        assert state(model) != before
        raise ZeroDivisionError
    assert state(model) == before


def test_small_kernels_have_the_strides_of_their_layout():
    """A 1x1 kernel is contiguous in either layout; GPUs go by its strides."""
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 5, 8), nn.Flatten())
    voter = Voter(model, classes=5)
    with voting([voter]):
        strides = [model[0].weight.stride(), model[1].weight.stride()]
    assert strides == [(3, 1, 3, 3), (512, 1, 64, 8)]
    assert model[0].weight.stride() == (3, 1, 1, 1)


def test_a_model_that_lies_right_is_used_as_it_is():
    model = conv_net().to(memory_format=torch.channels_last)
    voter = Voter(model, classes=5)
    assert voter.copies() == []
    moved = Voter(later := conv_net(), classes=5)
    assert len(moved.copies()) == 1
    later.to(memory_format=torch.channels_last)  # by its owner
    assert moved.copies(fresh=True) == []
    assert len(Voter(conv_net(), classes=5).copies()) == 1  # of the one kernel, not of all weights


@pytest.mark.parametrize("train", [lambda w: w.mul_(-1), lambda w: w.data.mul_(-1), lambda w: w.copy_(-w)])
def test_a_model_trained_in_between_votes_as_it_is_now(train):
    model = conv_net()
    f = sx.Smoothed(model, sigma=0.5, classes=5)
    first = f.certify(X, **ASKED)
    with torch.no_grad():
        train(model[0].weight)
    second = f.certify(X, **ASKED)
    assert second != first
    assert second == sx.Smoothed(copy.deepcopy(model), sigma=0.5, classes=5).certify(X, **ASKED)
    assert sx.systems.behaviour.behaviour(f, (3, 10, 10)) == sx.systems.behaviour.behaviour(
        sx.Smoothed(copy.deepcopy(model), sigma=0.5, classes=5), (3, 10, 10)
    )


def test_a_change_that_torch_does_not_count_is_voted_with_also_by_a_run_that_says_nothing_changed():
    voter = Voter(model := conv_net(), classes=5)
    x = torch.rand(2, 3, 10, 10)
    voter.check(x, 0.5)
    (copied,) = voter.copies()
    model[0].weight.data.mul_(-1)
    assert not torch.equal(copied.copy, model[0].weight)
    voter.check(x, 0.5, unchanged=True)
    assert torch.equal(voter.copies()[0].copy, model[0].weight)


def test_copies_are_shared_by_the_voters_of_a_model_and_go_with_them():
    model = conv_net()
    first, second = Voter(model, classes=5), Voter(model, classes=5, dtype="bf16")
    assert first.copies()[0] is second.copies()[0]
    with voting([first, second]), voting([second]):
        assert model[0].weight.data_ptr() == first.copies()[0].copy.data_ptr()
    assert model[0].weight.is_contiguous()
    sent = pickle.loads(pickle.dumps(first))
    assert sent.copies()[0] is not first.copies()[0]


class Viewing(nn.Module):
    """Insists on the usual layout of what its layer returns."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(400, 5)

    def forward(self, images):
        return self.last(self.layer(images).view(len(images), -1))


def test_a_model_that_insists_on_its_layout_has_its_way_with_what_it_shares():
    torch.manual_seed(0)
    denoiser = nn.Conv2d(3, 3, 3, padding=1)
    models = [sx.Denoised(denoiser, classifier) for classifier in (Viewing(), conv_net())]
    before = state(denoiser)
    router = sx.Smoothed(sx.Denoised(denoiser, nn.Sequential(nn.Flatten(), nn.Linear(300, 2))), sigma=0.5, classes=2)
    dual = sx.Dual(router, [sx.Smoothed(model, sigma=0.5, classes=5) for model in models])
    assert len(dual.certify(X, **ASKED)) == 3
    assert state(denoiser) == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("compiled", [False, "graphs"])
def test_a_model_on_the_cpu_votes_on_a_gpu_and_stays_on_the_cpu(compiled):
    model = conv_net()
    before = state(model)
    f = sx.Smoothed(model, sigma=0.5, classes=5, device="cuda", compile=compiled, batch=128)
    first = f.certify(X, **ASKED)
    assert state(model) == before
    with torch.no_grad():
        model[0].weight.mul_(-1)
    second = f.certify(X, **ASKED)
    assert second != first
    there = sx.Smoothed(copy.deepcopy(model).cuda(), sigma=0.5, classes=5, compile=compiled, batch=128)
    assert second == there.certify(X, **ASKED)
