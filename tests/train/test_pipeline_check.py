"""What only a look at data and systems can tell to be wrong with a pipeline; still before anything is written."""

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train import Pipeline, PipelineConfig

SMALLEST = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
[router]
sigma = 0.4
"""


def read(folder, text):
    (folder / "pipe.toml").write_text(text)
    return PipelineConfig.read(folder / "pipe.toml")


def test_splits_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    def load(source, split, size=None):
        side = 8 if split == "train" else 4
        images = np.zeros((2, 1, side, side), np.float32)
        return Dataset(name="odd", split=split, images=images, labels=np.arange(2), classes=("a", "b"))

    monkeypatch.setattr("sigmax.data.load", load)
    with pytest.raises(RequestError, match=r"pipe.toml: \[data\] 'train' and 'test' must be images of one shape"):
        Pipeline(read(tmp_path, SMALLEST)).check()


def smoothed(classes=10, sigma=0.1, shape=(1, 8, 8)):
    torch.manual_seed(0)
    network = models.create(
        Description(architecture="small-cnn", classes=classes, input_shape=shape, options={"width": 4})
    )
    return sx.Smoothed(network, sigma=sigma, classes=classes)


def with_systems(tmp_path, *systems, steps='["router"]', more=""):
    for j, system in enumerate(systems):
        system.save(tmp_path / f"system-{j}")
    listed = [f"system-{j}" for j in range(len(systems))]
    text = SMALLEST.replace("sigmas = [0.1, 0.4]", f"systems = {listed}")
    return read(tmp_path, text.replace("[data]", f"steps = {steps}\n[data]") + more)


def test_systems_that_do_not_fit_are_refused(tmp_path):
    wide = smoothed(shape=(3, 8, 8))
    lipschitz = sx.Lipschitz(smoothed().voters["base"].model, 1.0, classes=10)
    inner = sx.Dual(smoothed(classes=2, sigma=0.4), [smoothed(), smoothed()])
    for number, (systems, steps, named) in enumerate(
        [
            ((smoothed(), smoothed(classes=3)), '["router"]', "all experts must tell the same classes apart"),
            (
                (smoothed(classes=3), smoothed(classes=3)),
                '["router"]',
                "they tell 3 classes apart, but digits has 10",
            ),
            ((smoothed(), wide), '["router"]', "does not accept an input of shape"),
            ((smoothed(), lipschitz), '["router", "finetune"]', "expert 1 is a Lipschitz"),
            ((smoothed(), inner), '["router", "finetune"]', "expert 1 is a Dual"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = with_systems(folder, *systems, steps=steps)
        with pytest.raises(RequestError, match=named) as refused:
            Pipeline(config).check()
        assert str(refused.value).startswith(str(folder / "pipe.toml"))
        assert not config.out.exists()


def test_draws_are_judged_by_what_the_systems_pay(tmp_path):
    """Of two smoothed experts each gets a quarter of alpha; beside a deterministic one, which pays none, a half."""
    exact = sx.Lipschitz(smoothed().voters["base"].model, 1.0, classes=10)
    few = '[certify]\nn = 11\nrules = ["consensus"]'
    for folder in ("mixed", "smoothed"):
        (tmp_path / folder).mkdir()
    Pipeline(with_systems(tmp_path / "mixed", smoothed(), exact, more=few)).check()
    with pytest.raises(RequestError, match=r"\[certify\]: expert-0, which gets 0.00025 of alpha=0.001: n=11"):
        Pipeline(with_systems(tmp_path / "smoothed", smoothed(), smoothed(sigma=0.2), more=few)).check()


@pytest.mark.parametrize("given", ["sigmas", "systems"])
def test_too_little_noise_of_the_router_is_warned_of(tmp_path, given):
    said = []
    if given == "sigmas":
        config = read(tmp_path, SMALLEST.replace("sigma = 0.4", "sigma = 0.3"))
    else:
        inner = sx.Dual(smoothed(classes=2, sigma=0.5), [smoothed(), smoothed(sigma=0.5)])
        config = with_systems(tmp_path, smoothed(), inner)
    Pipeline(config, on_warning=said.append).check()
    largest = 0.4 if given == "sigmas" else 0.5
    assert len(said) == 1
    assert f"is below the largest noise of the experts, {largest}" in said[0]
    assert f"use {largest} or more" in said[0]
    Pipeline(config).check()


def test_noise_beyond_the_pixels_is_warned_of(tmp_path):
    said = []
    config = read(tmp_path, SMALLEST.replace("0.1, 0.4", "0.25, 25").replace("sigma = 0.4", "sigma = 100"))
    Pipeline(config, on_warning=said.append).check()
    assert said == [
        "experts.sigmas: sigma 25 is 25 times the pixel range [0, 1]; did you mean 0.25?",
        "router: sigma 100 is 100 times the pixel range [0, 1]; did you mean 1?",
    ]
