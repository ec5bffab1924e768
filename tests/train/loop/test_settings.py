import math

import pytest
import torch
from torch import nn

from sigmax.errors import RequestError
from sigmax.train import Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs: expected a number of at least 1, got 0"),
        ({"epochs": 1.5}, "epochs: expected a whole number, got 1.5"),
        ({"batch": 0}, "batch: expected a number of at least 1, got 0"),
        ({"threads": 0}, "threads: expected a number of at least 1, got 0"),
        ({"lr": 0.0}, "lr: expected a number above 0, got 0.0"),
        ({"lr": math.nan}, "lr: expected a finite number, got nan"),
        ({"momentum": 1.0}, "momentum: expected a number below 1, got 1.0"),
        ({"weight_decay": -1e-4}, "weight_decay: expected a number of at least 0"),
        ({"step_factor": 0.0}, "step_factor: expected a number above 0, got 0.0"),
        ({"seed": -1}, "seed: expected a number of at least 0, got -1"),
        ({"optimiser": "lion"}, "optimiser: expected .* got 'lion'"),
        ({"schedule": "linear"}, "schedule: expected .* got 'linear'"),
        ({"schedule": "one-cycle", "descent": "step"}, "descent: expected .* got 'step'"),
        ({"warmup": 1.0}, "warmup: expected a number below 1, got 1.0"),
        ({"ema": 1.0}, "ema: expected a number below 1, got 1.0"),
        ({"clip": -1.0}, "clip: expected a number of at least 0, got -1.0"),
        ({"precision": "fp8"}, "precision: expected .* got 'fp8'"),
        ({"channels_last": 1}, "channels_last: expected true or false, got 1"),
        ({"compile": "yes"}, "compile: expected .* got 'yes'"),
        ({"nesterov": True, "optimiser": "adam"}, "nesterov: expected sgd with momentum, got adam"),
        ({"nesterov": True, "momentum": 0.0}, "nesterov: expected sgd with momentum, got sgd with momentum=0.0"),
        ({"augment": "flip"}, "augment: expected .* got 'flip'"),
    ],
)
def test_wrong_settings_say_what_was_expected(wrong, message):
    with pytest.raises(RequestError, match=message):
        Settings(**wrong)


def test_schedules():
    constant = Settings(lr=0.2, schedule="constant")
    assert constant.learning_rate(100.5) == 0.2
    cosine = Settings(lr=0.2, schedule="cosine", epochs=10)
    assert [cosine.learning_rate(t) for t in (0, 5, 10)] == pytest.approx([0.2, 0.1, 0.0])
    halved = Settings(lr=0.2, schedule="step", step_epochs=30, step_factor=0.5, epochs=90)
    assert [halved.learning_rate(t) for t in (0, 29.99, 30, 89)] == pytest.approx([0.2, 0.2, 0.1, 0.05])


@pytest.mark.parametrize(
    ("descent", "falling"), [("linear", [0.2, 0.15, 0.1, 0.05, 0.0]), ("cosine", [0.2, 0.17071, 0.1, 0.02929, 0.0])]
)
def test_one_cycle_climbs_to_its_peak_and_falls_to_zero(descent, falling):
    cycle = Settings(lr=0.2, schedule="one-cycle", descent=descent, warmup=0.2, epochs=10)
    assert [cycle.learning_rate(t) for t in (0, 0.5, 1, 1.5)] == pytest.approx([0, 0.05, 0.1, 0.15])
    assert [cycle.learning_rate(t) for t in (2, 4, 6, 8, 10)] == pytest.approx(falling, abs=1e-5)
    assert Settings(lr=0.2, schedule="one-cycle", warmup=0.0, epochs=10).learning_rate(0) == 0.2


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_optimisers(name, kind):
    settings = Settings(optimiser=name, lr=0.03, weight_decay=0.01, momentum=0.8)
    optimiser = settings.make_optimiser(nn.Linear(2, 2).parameters())
    assert type(optimiser) is kind
    assert (optimiser.defaults["lr"], optimiser.defaults["weight_decay"]) == (0.03, 0.01)
    assert optimiser.defaults.get("momentum", 0.8) == 0.8


@pytest.mark.parametrize("device", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(RequestError, match=f"device '{device}' cannot be used"):
        Settings(device=device).torch_device()


def test_the_device_is_not_part_of_the_plan():
    assert Settings(device="cuda").plan() == Settings(device="cpu").plan()
    assert Settings(seed=1).plan() != Settings(seed=2).plan()


def test_nesterov_reaches_the_optimiser():
    assert Settings(nesterov=True).make_optimiser(nn.Linear(2, 2).parameters()).defaults["nesterov"] is True
