"""Noises by name: what a plan names is found in one registry, and anything else is refused."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from sigmax.errors import RequestError
from sigmax.radius import noise
from sigmax.radius.noise import Gaussian, noise_from, register
from sigmax.rules.registry import rebuild
from sigmax.rules.smoothed import SmoothedRule


@dataclass(frozen=True)
class Wide(Gaussian):
    """A second noise: its score is Gaussian, its name is its own."""

    name: ClassVar[str] = "wide"
    norm: ClassVar[str] = "l1"


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setattr(noise, "_noises", dict(noise._noises))
    register("wide", Wide)


def test_a_second_noise_is_one_more_entry(wide):
    rule = SmoothedRule(Wide(0.5), 3)
    again = rebuild(rule.describe())
    assert again == rule
    assert isinstance(again, SmoothedRule)
    assert type(again.noise) is Wide
    assert again.norm == "l1"


def test_a_name_stands_for_one_noise(wide):
    register("wide", Wide)
    with pytest.raises(RequestError, match="a noise 'wide' is registered already"):
        register("wide", Gaussian)


@pytest.mark.parametrize("name", ["wide", None, 3, ["gaussian"], "Gaussian"])
def test_what_is_not_registered_is_refused(name):
    with pytest.raises(RequestError, match="unknown noise .* knows: gaussian"):
        noise_from({"noise": name, "sigma": 0.5})


@pytest.mark.parametrize("given", [Wide(0.5), 0.5, "gaussian", Gaussian])
def test_a_rule_samples_registered_noise_alone(given):
    with pytest.raises(RequestError, match="noise must be a distribution such as .* got .*"):
        SmoothedRule(given, 3)


@pytest.mark.parametrize("sigma", [None, "0.5", True, 0.0, -1.0, float("nan"), float("inf")])
def test_the_level_of_a_noise_is_checked(sigma):
    with pytest.raises(RequestError, match="sigma must be a positive number"):
        noise_from({"noise": "gaussian", "sigma": sigma})
