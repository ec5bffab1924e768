import pytest

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train.router.loss import Router
from sigmax.train.router.presets import PRESETS, SMALL, router_preset

GIVEN = {"shares": (0.5, 0.5), "scale": 1.0}


def test_cifar10_is_as_the_paper_says():
    architecture, settings, fields = router_preset("dual-cifar10")
    assert architecture == "resnet110"
    assert (settings.epochs, settings.batch, settings.optimiser) == (90, 256, "adamw")
    assert (settings.lr, settings.weight_decay) == (0.01, 0.01)
    assert [settings.learning_rate(t) for t in (0, 29.9, 30, 60, 89)] == [0.01, 0.01, 0.005, 0.0025, 0.0025]
    assert fields == {
        "sigma": 1.0,
        "copies": 2,
        "labels_kind": "soft",
        "sharpness": 1.0,
        "consistency": 40.0,
        "entropy": 0.5,
        "balance": True,
        "strength": "strong",
    }


def test_imagenet_is_as_the_paper_says():
    architecture, settings, fields = PRESETS["dual-imagenet"]
    assert architecture == "resnet50"
    assert (settings.epochs, settings.batch, settings.optimiser) == (9, 200, "adamw")
    assert (settings.lr, settings.weight_decay) == (0.005, 0.01)
    assert [settings.learning_rate(t) for t in (0, 2.9, 3, 6)] == [0.005, 0.005, 0.0025, 0.00125]
    assert fields == {**PRESETS["dual-cifar10"].fields, "consistency": 10.0, "strength": "weak"}


def test_another_network_may_be_named_if_it_is_here():
    assert router_preset("dual-imagenet").architecture == "resnet50"
    with pytest.raises(RequestError, match="'resnet51' is not among the architectures here"):
        router_preset("dual-imagenet", architecture="resnet51")
    named = router_preset("dual-imagenet", architecture="resnet18")
    assert named.architecture == "resnet18"
    assert named.settings == PRESETS["dual-imagenet"].settings
    assert router_preset("dual-cifar10", architecture="resnet20").architecture == "resnet20"


def test_an_unknown_preset():
    with pytest.raises(RequestError, match="unknown preset 'dual-mnist'; known are: dual-cifar10, dual-imagenet"):
        router_preset("dual-mnist")


@pytest.mark.parametrize("preset", [*PRESETS.values(), SMALL])
def test_fields_are_those_of_the_loss(preset):
    Router(**GIVEN, **{"sigma": 0.4, **preset.fields})
    assert preset.architecture in models.names()
