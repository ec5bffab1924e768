"""The training methods, one row each: what makes a step quick, what is refused, and what is learned of the digits.

A new method needs a row here, and a test file of its own mathematics.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from sigmax import models
from sigmax.models import Description
from sigmax.train import Method, Settings
from sigmax.train.methods.data_dependent import with_moving_noise
from sigmax.train.methods.registry import known, make_method

SHORT = Settings(epochs=6, batch=128)
Wrong = Sequence[tuple[Mapping[str, Any], str]]  # hyper-parameters, and what the error says of them

POSITIVE = [({"sigma": 0.0}, "sigma: expected a number above 0, got 0.0")]
MAY_BE_ZERO = [({"sigma": -0.1}, "sigma: expected a number of at least 0, got -0.1")]
COPIES = [
    ({"copies": 0}, "copies: expected a number of at least 1, got 0"),
    ({"copies": True}, "copies: expected a whole number, got True"),
    ({"copies": 1.5}, "copies: expected a whole number, got 1.5"),
]


@dataclass(frozen=True)
class Row:
    """How a method is tested."""

    wrong: Wrong
    quick: Mapping[str, Any] = field(default_factory=dict)  # few copies and steps
    digits: Mapping[str, Any] = field(default_factory=dict)  # for `learned`
    settings: Settings = SHORT  # for noise 0.4 on the digits
    learned: float = 0.9  # of the test digits, by a vote of 50 noises; the least that is asked for


ROWS = {
    "gaussian": Row([*MAY_BE_ZERO, *COPIES], quick={"copies": 2}),
    "stability": Row(
        [*POSITIVE, ({"weight": math.inf}, "weight: expected a finite number, got inf")],
        settings=Settings(epochs=10, batch=128, lr=0.05),
        learned=0.88,
    ),
    "smoothadv": Row(
        [
            *MAY_BE_ZERO,
            *COPIES,
            ({"epsilon": 0.0}, "epsilon: expected a number above 0, got 0.0"),
            ({"steps": 2.0}, "steps: expected a whole number, got 2.0"),
            ({"warm_up": 0}, "warm_up: expected a number of at least 1, got 0"),
        ],
        quick={"copies": 2, "steps": 2},
        digits={"epsilon": 0.5, "copies": 2, "steps": 2, "warm_up": 3},
        settings=Settings(epochs=6, batch=64),
        learned=0.92,
    ),
    "macer": Row(
        [
            *POSITIVE,
            *COPIES,
            ({"gamma": math.nan}, "gamma: expected a finite number, got nan"),
            ({"beta": -1.0}, "beta: expected a number above 0, got -1.0"),
            ({"weight": -1.0}, "weight: expected a number of at least 0, got -1.0"),
            ({"plain_epochs": -1}, "plain_epochs: expected a number of at least 0, got -1"),
        ],
        quick={"copies": 4},
        digits={"weight": 1.0, "copies": 4, "plain_epochs": 3},
        settings=Settings(epochs=6, batch=128, lr=0.05),
    ),
    "consistency": Row(
        [
            *POSITIVE,
            ({"consistency": -1.0}, "consistency: expected a number of at least 0, got -1.0"),
            ({"entropy": math.nan}, "entropy: expected a finite number, got nan"),
            ({"copies": 1}, "copies: expected a number of at least 2, got 1"),
        ],
        digits={"consistency": 5.0},
        settings=Settings(epochs=8, batch=128),
    ),
    "smoothmix": Row(
        [
            *POSITIVE,
            *COPIES,
            ({"step": math.nan}, "step: expected a finite number, got nan"),
            ({"steps": 0}, "steps: expected a number of at least 1, got 0"),
            ({"steps": 1, "mix_step": 1}, "steps: expected more than mix_step=1, got 1"),
            ({"mix_step": 2}, "mix_step: expected 0 or 1, got 2"),
        ],
        quick={"steps": 2},
        digits={"step": 0.5, "steps": 2, "mix_step": 1, "warm_up": 3},
        learned=0.87,
    ),
    "cat-rs": Row(
        [
            *POSITIVE,
            *COPIES,
            ({"epsilon": math.inf}, "epsilon: expected a finite number, got inf"),
            ({"mean_over": "none"}, "mean_over: expected 'kept' or 'copies', got 'none'"),
            ({"target": 3}, "target: expected .* got 3"),
        ],
        quick={"copies": 2, "steps": 2},
        digits={"copies": 2, "steps": 2, "epsilon": 0.5},
        settings=Settings(epochs=6, batch=64),
        learned=0.92,
    ),
    "distillation": Row(
        [
            *POSITIVE,
            *COPIES,
            ({"weight": 1.5}, "weight: expected a number of at most 1, got 1.5"),
            ({"temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
            ({"consistency": 1.0}, "consistency: one noisy copy cannot disagree with itself; set copies=2, got 1"),
            ({"teacher": 3}, "teacher: expected .* got 3"),
        ],
        digits={"copies": 2, "temperature": 2.0, "weight": 0.5},
    ),
    "easy-samples": Row(
        [
            *POSITIVE,
            *COPIES,
            ({"discard_epoch": -1}, "discard_epoch: expected a number of at least 0, got -1"),
            ({"threshold": 1.5}, "threshold: expected a number of at most 1, got 1.5"),
            ({"weight_alpha": 0.0}, "weight_alpha: expected a number above 0, got 0.0"),
            ({"weight_from": 0.5}, "weight_from: expected a number above 0.5, got 0.5"),
            ({"reference": "limit", "weight_from": 0.51}, "weight_from: expected a share of weight_votes that proves"),
            ({"norm": "l1"}, "norm: expected 'l2' or 'linf', got 'l1'"),
            ({"attack": 1}, "attack: expected true or false, got 1"),
        ],
        quick={"copies": 2, "steps": 2, "discard_epoch": 1, "threshold": 0.0, "weight_every": 1},
        digits={"copies": 2, "discard_epoch": 4, "threshold": 0.4, "steps": 2, "weight_every": 2},
        settings=Settings(epochs=8, batch=64),
        learned=0.92,
    ),
}
TEACHERS = {"cat-rs": "target", "distillation": "teacher"}  # methods that learn from a network, by what they call it
NAMES = sorted(ROWS)
ANY_NOISE = sorted(name for name, method in known().items() if method.kind.any_noise)
VARIANTS = [*NAMES, *(f"{name} with moving noise" for name in ANY_NOISE)]


@cache
def teacher(sigma: float, classes: int) -> models.Classifier:
    """A network to learn from, of the noise that CAT-RS asks that it was trained with."""
    with torch.random.fork_rng():
        torch.manual_seed(9)
        return models.create(
            Description(
                architecture="small-cnn",
                options={"width": 4},
                classes=classes,
                input_shape=(1, 8, 8),
                sigma=sigma,
            )
        )


def quick(variant: str, sigma: float = 0.3, *, classes: int = 3, **hyper: Any) -> Method:
    """The method, or "NAME with moving noise", with few copies and steps."""
    name, _, moving = variant.partition(" with ")
    given = {**ROWS[name].quick, **hyper}
    if name in TEACHERS:
        given.setdefault(TEACHERS[name], teacher(sigma, classes))
    method = make_method(name, sigma, given)
    return with_moving_noise(method, {"step": 0.02}) if moving else method
