import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError


@pytest.mark.parametrize("name", models.names())
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 9, 13)])
def test_every_architecture_takes_every_shape(name, shape):
    network = models.build(name, classes=7, input_shape=shape)
    assert not network.training
    assert network(torch.rand(3, *shape)).shape == (3, 7)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(RequestError, match=r"unknown architecture 'resnet9'.*small-cnn.*resnet110"):
        models.build("resnet9", classes=10, input_shape=(3, 32, 32))


def test_an_unknown_option_lists_the_known():
    with pytest.raises(RequestError, match=r"'small-cnn' has no option depth; its options are: width"):
        models.build("small-cnn", classes=10, input_shape=(1, 8, 8), depth=3)


def test_the_same_seed_gives_the_same_weights():
    def weights():
        torch.manual_seed(5)
        return models.build("small-cnn", classes=10, input_shape=(1, 8, 8)).state_dict()

    first, second = weights(), weights()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_users_register_their_own(registrations_are_forgotten):
    @models.register("one-layer")
    def one_layer(*, classes, input_shape, bias=True):
        return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], classes, bias=bias))

    assert "one-layer" in models.names()
    network = models.build("one-layer", classes=4, input_shape=(1, 5, 5), bias=False)
    assert [tuple(p.shape) for p in network.parameters()] == [(4, 25)]
    with pytest.raises(RequestError, match=r"cannot be built: mat1 and mat2"):
        models.build("one-layer", classes=4, input_shape=(2, 5, 5))


def test_a_name_belongs_to_one_builder(registrations_are_forgotten):
    with pytest.raises(RequestError, match="registered already"):
        models.register("resnet20")(lambda **_: nn.Identity())


def test_a_builder_that_gives_other_classes_is_refused(registrations_are_forgotten):
    models.register("ten")(lambda *, classes, input_shape: nn.Sequential(nn.Flatten(), nn.Linear(4, 10)))
    with pytest.raises(RequestError, match=r"logits of shape \(2, 3\), they gave \(2, 10\)"):
        models.build("ten", classes=3, input_shape=(1, 2, 2))


@pytest.mark.parametrize(("built", "got"), [(None, "NoneType"), (nn.Flatten, "the class Flatten")])
def test_a_builder_that_gives_no_network_is_refused(registrations_are_forgotten, built, got):
    models.register("empty")(lambda **_: built)
    models.register("empty-denoiser", denoiser=True)(lambda **_: built)
    for name, classes in (("empty", 3), ("empty-denoiser", 0)):
        with pytest.raises(RequestError, match=f"registered as '{name}' must return a torch.nn.Module; got {got}"):
            models.build(name, classes=classes, input_shape=(1, 2, 2))


def test_an_option_without_default_must_be_given(registrations_are_forgotten):
    models.register("needy")(lambda *, classes, input_shape, size: nn.Flatten())
    with pytest.raises(RequestError, match="needs a value for size"):
        models.build("needy", classes=3, input_shape=(1, 2, 2))


@pytest.mark.parametrize("width", [-1, "wide"])
def test_a_senseless_option_is_a_wrong_request(width):
    with pytest.raises(RequestError, match="cannot be built"):
        models.build("small-cnn", classes=10, input_shape=(1, 8, 8), width=width)
