"""Every number a training run depends on, in one place, checked when it is written down."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from sigmax.errors import RequestError

OPTIMISERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "step")
AUGMENTATIONS = ("none", "crop", "crop-flip")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train. The defaults suit the digits: about seven seconds a model on one CPU core.

    The field's recipe for CIFAR-10 (Cohen et al., 2019) is `Settings(epochs=150, batch=256, weight_decay=1e-4,
    schedule="step", augment="crop-flip")`.
    """

    epochs: int = 120  # passes over the training images
    batch: int = 64  # images a step, at most; an epoch's batches are of equal size, give or take one image
    optimiser: str = "sgd"  # one of OPTIMISERS
    lr: float = 0.1  # learning rate at the start
    momentum: float = 0.9  # share of the last step kept; for sgd alone
    weight_decay: float = 5e-4  # pull to zero, per step and relative to the learning rate
    schedule: str = "cosine"  # "constant"; "cosine": to zero at the end; "step": see the next two
    step_epochs: int = 50  # epochs between two drops of a "step" schedule
    step_factor: float = 0.1  # what the learning rate is multiplied by at a drop
    augment: str = "none"  # "crop": shifts by up to an eighth of the side; "crop-flip": mirror images as well
    seed: int = 0  # fixes first weights, order of the images, augmentation and noise
    threads: int = 1  # CPU threads; sums depend on it in the last bit. Small networks do not repay a second
    device: str = "cpu"  # where to compute, such as "cuda" or "cuda:1"; not part of what is computed

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "step_epochs", "threads"):
            value = getattr(self, name)
            _check(isinstance(value, int) and value >= 1, name, "a whole number of at least 1", value)
        _check(isinstance(self.seed, int) and 0 <= self.seed < 2**63, "seed", "0 to 2**63 - 1", self.seed)
        _check(0 < self.lr < math.inf, "lr", "positive and finite", self.lr)
        _check(0 <= self.momentum < 1, "momentum", "at least 0 and below 1", self.momentum)
        _check(0 <= self.weight_decay < math.inf, "weight_decay", "at least 0 and finite", self.weight_decay)
        _check(0 < self.step_factor <= 1, "step_factor", "above 0 and at most 1", self.step_factor)
        for name, known in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("augment", AUGMENTATIONS)):
            value = getattr(self, name)
            _check(value in known, name, f"one of {', '.join(known)}", value)

    def plan(self) -> dict[str, Any]:
        """The settings that decide the result: all but the device."""
        return {name: value for name, value in asdict(self).items() if name != "device"}

    def learning_rate(self, time: float) -> float:
        """The learning rate after `time` epochs, which need not be whole."""
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * time / self.epochs)) / 2
        if self.schedule == "step":
            return self.lr * self.step_factor ** int(time / self.step_epochs)
        return self.lr

    def make_optimiser(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser named, over these parameters."""
        if self.optimiser == "sgd":
            return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        kind = torch.optim.Adam if self.optimiser == "adam" else torch.optim.AdamW
        return kind(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def torch_device(self) -> torch.device:
        """The device named, once it was seen to work."""
        try:
            device = torch.device(self.device)
            torch.zeros(1, device=device)
        except (AssertionError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise RequestError(f'device {self.device!r} cannot be used ({reason}); "cpu" always can') from error
        return device


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
