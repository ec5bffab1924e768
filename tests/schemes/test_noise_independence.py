"""Noise is independent of the network and of the data: a network built around a public seed gains nothing by it."""

import pytest
import torch
from torch import Tensor, nn

import sigmax as sx
from sigmax.engine.inputs import mixed
from sigmax.models.content import content_of
from sigmax.noise.gaussian import block

SIGMA, N0, N = 0.5, 100, 1000
X = torch.full((1, 1, 4, 4), 0.5)
ASKED = {"n0": N0, "n": N, "alpha": 0.001}


def noises(seed: int, input_id: int) -> Tensor:
    """All noise that a certificate of X would be made of under this address."""
    stages = [("selection", 1), ("estimation", -(-N // 128))]
    blocks = [
        block(seed=seed, input_id=input_id, stage=stage, index=i, shape=X.shape[1:])
        for stage, count in stages
        for i in range(count)
    ]
    return torch.cat(blocks)


class SeedAware(nn.Module):
    """Answers class 1 on the noisy copies that its weights hold, and class 0 everywhere else."""

    def __init__(self, known: Tensor) -> None:
        super().__init__()
        self.register_buffer("known", X + SIGMA * known)

    def forward(self, batch: Tensor) -> Tensor:
        apart = torch.cdist(batch.flatten(1), self.known.flatten(1)).amin(1)
        return (apart < 1e-2).long()


def answers(model, seed=0):
    (certificate,) = sx.Smoothed(model, sigma=SIGMA, classes=2).certify(X, seed=seed, **ASKED)
    return certificate.predicted


def test_the_addresses_are_those_of_the_certificates():
    """Otherwise the networks below would know nothing, and prove nothing."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    seen = []
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    sx.Smoothed(model, sigma=SIGMA, classes=2).certify(X, seed=0, **ASKED)
    expected = X + SIGMA * noises(*mixed(0, 0, content_of([model]), X[0]))
    assert torch.cdist(expected[:N0].flatten(1), torch.cat(seen).flatten(1)).amin(1).max() < 1e-2


def test_a_network_that_holds_the_noise_of_a_seed_is_not_certified_by_it():
    assert answers(SeedAware(noises(0, 0))) == 0
    built = SeedAware(noises(0, 0))
    for _ in range(3):  # each time built around the noise that it would have got, which is then no longer its own
        built = SeedAware(noises(*mixed(0, 0, content_of([built]), X[0])))
        assert answers(built) == 0


def test_a_function_hides_its_weights_so_its_seed_must_be_chosen_after_it():
    """The limit of it, as the documentation says: nothing inside a function can be hashed."""
    hidden = SeedAware(noises(*mixed(0, 0, content_of([]), X[0])))
    assert answers(lambda batch: hidden(batch)) == 1, "certified falsely, since the function was built around the seed"
    assert answers(lambda batch: hidden(batch), seed=1) == 0


class Hiding(nn.Module):
    """Keeps a network where torch does not look for weights."""

    def __init__(self, hidden: list[nn.Module]) -> None:
        super().__init__()
        self.hidden = hidden

    def forward(self, batch: Tensor) -> Tensor:
        return self.hidden[0](batch)


def test_what_no_parameter_or_buffer_holds_is_not_hashed_either():
    """The same limit in a module: plain attributes and code."""
    hidden = SeedAware(noises(*mixed(0, 0, content_of([Hiding([])]), X[0])))
    assert answers(Hiding([hidden])) == 1, "certified falsely, since the module was built around the seed"
    assert answers(Hiding([hidden]), seed=1) == 0


def test_other_inputs_and_other_weights_have_other_noise_under_the_same_id():
    net, other = (nn.Linear(4, 2) for _ in range(2))
    x = torch.rand(2, 4)
    assert mixed(0, 7, content_of([net]), x[0]) != mixed(0, 7, content_of([net]), x[1])
    assert mixed(0, 7, content_of([net]), x[0]) != mixed(0, 7, content_of([other]), x[0])
    assert mixed(0, 7, content_of([net]), x[0]) != mixed(0, 7, content_of([net]), x[0].view(2, 2))
    assert content_of([net, other]) == content_of([other, net]) != content_of([net])
    selective = sx.models.selective(net, confidence=0.7)
    assert content_of([selective]) == content_of([net]), "thresholds are compared on the same noise"


def test_one_image_under_two_ids_has_two_noises_and_one_id_stands_for_one_input():
    f = sx.Smoothed(lambda batch: batch.flatten(1)[:, 0].gt(0.5).long(), sigma=0.5, classes=2)
    images = torch.full((2, 4), 0.5)
    first, second = f.certify(images, n0=100, n=5_000, alpha=0.01, seed=0)
    assert first.stages[-1].counts != second.stages[-1].counts
    with pytest.raises(sx.RequestError, match="2 ids, 1 different"):
        f.certify(images, n0=100, n=5_000, alpha=0.01, ids=[7, 7])
