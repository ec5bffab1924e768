import math

import pytest
import torch
from torch import nn

from sigmax.errors import RequestError
from sigmax.train import Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"batch": 0}, "batch must be"),
        ({"threads": 0}, "threads must be"),
        ({"lr": 0.0}, "lr must be positive and finite, got 0.0"),
        ({"lr": math.nan}, "lr must be positive"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"weight_decay": -1e-4}, "weight_decay must be"),
        ({"step_factor": 0.0}, "step_factor must be"),
        ({"seed": -1}, "seed must be"),
        ({"optimiser": "lion"}, "optimiser must be one of sgd, adam, adamw, got 'lion'"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine, step"),
        ({"augment": "flip"}, "augment must be one of none, crop, crop-flip"),
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
