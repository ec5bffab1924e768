"""The table of methods: names, presets as the papers have them, and requests that are wrong."""

import pytest

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train import Gaussian, Settings
from sigmax.train.macer import Macer
from sigmax.train.methods import METHODS, make_method, method_preset, parsed, settable, with_moving_noise

NAMES = ["gaussian", "stability", "smoothadv", "macer", "consistency", "smoothmix", "cat-rs", "easy-samples"]


@pytest.fixture(scope="module")
def teacher():
    """A model of the kind CAT-RS learns from: trained, as its description says, at the same noise."""
    return models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8), sigma=0.5))


def test_every_method_has_its_name():
    assert list(METHODS) == NAMES
    assert all(kind.name == name for name, kind in METHODS.items())


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "cat-rs"])
def test_presets_make_methods_whose_copies_divide_the_batch(name, sigma):
    preset = method_preset("cifar10", name, sigma)
    method = make_method(name, sigma, preset.fields)
    assert method.sigma == sigma
    assert preset.settings.batch % method.copies == 0
    assert preset.architecture in models.names()
    expected = Settings(epochs=150, batch=256, lr=0.1, momentum=0.9, weight_decay=1e-4, schedule="step",
                        step_epochs=50, step_factor=0.1, augment="crop-flip")  # fmt: skip
    assert preset.settings == expected


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("stability", "weight", (2, 2, 1)),
        ("smoothadv", "epsilon", (256 / 256, 256 / 256, 512 / 256)),
        ("smoothadv", "copies", (4, 8, 2)),
        ("macer", "weight", (12, 6, 12)),
        ("consistency", "consistency", (20, 10, 10)),
        ("smoothmix", "step", (0.5, 1, 2)),
        ("smoothmix", "mix_step", (0, 1, 1)),
        ("cat-rs", "weight", (0.5, 1, 2)),
        ("easy-samples", "discard_epoch", (60, 70, 60)),
        ("easy-samples", "threshold", (0.5, 0.4, 0.4)),
        ("easy-samples", "steps", (3, 6, 4)),
        ("easy-samples", "step", (0.25, 0.25, 0.5)),
    ],
)
def test_presets_are_the_papers(name, field, values):
    found = tuple(method_preset("cifar10", name, sigma).fields[field] for sigma in (0.25, 0.5, 1.0))
    assert found == values


def test_macer_waits_at_the_largest_noise():
    assert make_method("macer", 1.0, method_preset("cifar10", "macer", 1.0).fields).plain_epochs == 50
    assert make_method("macer", 0.5, method_preset("cifar10", "macer", 0.5).fields).plain_epochs == 0


def test_cat_rs_needs_its_target(teacher):
    fields = method_preset("cifar10", "cat-rs", 0.5).fields
    assert make_method("cat-rs", 0.5, {**fields, "target": teacher}).weight == 1.0
    with pytest.raises(RequestError, match="target"):
        make_method("cat-rs", 0.5, fields)


def test_hyper_parameters_are_read_as_their_kind():
    assert parsed(METHODS["macer"], ["copies=4", "beta = 8", "plain-epochs=2"]) == {
        "copies": 4,
        "beta": 8.0,
        "plain_epochs": 2,
    }
    assert parsed(METHODS["easy-samples"], ["discard=false", "norm=linf"]) == {"discard": False, "norm": "linf"}
    for texts, message in [
        (["copies=some"], "copies must be a whole number; got 'some'"),
        (["beta=x"], "beta must be a number"),
        (["copies"], "NAME=VALUE"),
        (["lambda=3"], r"macer has no lambda; macer takes weight=12.0, gamma=8.0"),
    ]:
        with pytest.raises(RequestError, match=message):
            parsed(METHODS["macer"], texts)
    with pytest.raises(RequestError, match="discard must be true or false"):
        parsed(METHODS["easy-samples"], ["discard=perhaps"])
    with pytest.raises(RequestError, match="norm must be one of l2, linf"):
        parsed(METHODS["easy-samples"], ["norm=l1"])


def test_wrong_requests_say_what_there_is():
    with pytest.raises(RequestError, match="unknown training method 'mixup'; known are: gaussian, stability"):
        make_method("mixup", 0.5)
    with pytest.raises(RequestError, match="unknown preset 'imagenet'; known is: cifar10"):
        method_preset("imagenet", "macer", 0.5)
    with pytest.raises(RequestError, match=r"sigma 0.25, 0.5, 1; got 0.3"):
        method_preset("cifar10", "macer", 0.3)
    with pytest.raises(RequestError, match="gaussian has no weight"):
        make_method("gaussian", 0.5, {"weight": 1.0})


def test_moving_noise_wraps_what_supports_it():
    assert with_moving_noise(Gaussian(0.5), {"step": 0.01}).inner == Gaussian(0.5)
    assert with_moving_noise(Macer(0.5)).step == pytest.approx(1e-4)
    assert "inner" not in settable(type(with_moving_noise(Gaussian(0.5))))
    with pytest.raises(RequestError, match="data-dependent has no pace"):
        with_moving_noise(Gaussian(0.5), {"pace": 1})
