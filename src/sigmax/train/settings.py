"""Every number a training run depends on, in one place, checked when it is written down."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from sigmax.errors import RequestError
from sigmax.train.distributed import local_device
from sigmax.train.partial import later, plan_of

OPTIMISERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "step", "one-cycle")
DESCENTS = ("linear", "cosine")
AUGMENTATIONS = ("none", "crop", "crop-flip", "strong")
PRECISIONS = ("fp32", "bf16", "fp16")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train. The defaults suit the digits: about seven seconds a model on one CPU core.

    The field's recipe for CIFAR-10 (Cohen et al., 2019) is `Settings(epochs=150, batch=256, weight_decay=1e-4,
    schedule="step", augment="crop-flip")`. On a GPU `precision="bf16", channels_last=True` costs less time.
    """

    epochs: int = 120  # passes over the training images
    batch: int = 64  # inputs a step, at most, over all processes; an epoch's batches differ by one image at most
    optimiser: str = "sgd"  # one of OPTIMISERS
    lr: float = 0.1  # learning rate at the start; of "one-cycle" at its peak
    momentum: float = 0.9  # share of the last step kept; for sgd alone
    nesterov: bool = later(False)  # take the gradient where momentum leads; for sgd alone
    weight_decay: float = 5e-4  # pull to zero, per step and relative to the learning rate
    schedule: str = "cosine"  # one of SCHEDULES: see `learning_rate`
    step_epochs: int = 50  # epochs between two drops of a "step" schedule
    step_factor: float = 0.1  # what the learning rate is multiplied by at a drop
    warmup: float = later(0.25)  # share of the run in which a "one-cycle" schedule climbs
    descent: str = later("linear")  # how it falls after that: one of DESCENTS
    clip: float = later(0.0)  # largest l2 norm of a step's gradient, all weights together; 0: no limit
    ema: float = later(0.0)  # share of the averaged weights kept in a step (see `ema`); 0: no averaging
    precision: str = later("fp32")  # of the forward pass; weights and losses are always 32-bit floats
    channels_last: bool = later(False)  # channels of a pixel side by side in memory, as GPUs like it
    compile: bool = later(False)  # let torch compile the network: minutes at first, then faster steps
    augment: str = "none"  # "crop": shifts by up to an eighth of the side; "crop-flip": mirror images as well;
    # "strong": also warped, tinted and partly covered, each with probability one half
    seed: int = 0  # fixes first weights, order of the images, augmentation and noise
    threads: int = 1  # CPU threads; sums depend on it in the last bit. Small networks do not repay a second
    device: str = "cpu"  # where to compute, such as "cuda" or "cuda:1"; not part of what is computed

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "step_epochs", "threads"):
            value = getattr(self, name)
            _check(isinstance(value, int) and value >= 1, name, "a whole number of at least 1", value)
        for name in ("nesterov", "channels_last", "compile"):
            value = getattr(self, name)
            _check(isinstance(value, bool), name, "True or False", value)
        _check(isinstance(self.seed, int) and 0 <= self.seed < 2**63, "seed", "0 to 2**63 - 1", self.seed)
        _check(0 < self.lr < math.inf, "lr", "positive and finite", self.lr)
        for name in ("momentum", "ema", "warmup"):
            value = getattr(self, name)
            _check(0 <= value < 1, name, "at least 0 and below 1", value)
        for name in ("weight_decay", "clip"):
            value = getattr(self, name)
            _check(0 <= value < math.inf, name, "at least 0 and finite", value)
        _check(0 < self.step_factor <= 1, "step_factor", "above 0 and at most 1", self.step_factor)
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            _check(value in known, name, f"one of {', '.join(known)}", value)
        if self.nesterov and (self.optimiser != "sgd" or self.momentum == 0):
            raise RequestError(
                f"nesterov needs sgd with momentum, got {self.optimiser} with momentum={self.momentum}; turn it off"
            )

    def plan(self) -> dict[str, Any]:
        """The settings that decide the result: all but the device."""
        return {name: value for name, value in plan_of(self).items() if name != "device"}

    def learning_rate(self, time: float) -> float:
        """The learning rate after `time` epochs, which need not be whole.

        With T epochs in all and t = time / T:
            constant   lr
            cosine     lr * (1 + cos(pi t)) / 2
            step       lr * step_factor ^ floor(time / step_epochs)
            one-cycle  lr * t / warmup up to t = warmup; then, with s = (t - warmup) / (1 - warmup),
                       lr * (1 - s), or lr * (1 + cos(pi s)) / 2 for a cosine descent
        """
        t = time / self.epochs
        if self.schedule == "cosine":
            return self.lr * _half_cosine(t)
        if self.schedule == "step":
            return self.lr * self.step_factor ** int(time / self.step_epochs)
        if self.schedule == "one-cycle":
            if t < self.warmup:
                return self.lr * t / self.warmup
            s = (t - self.warmup) / (1 - self.warmup)
            return self.lr * (1 - s if self.descent == "linear" else _half_cosine(s))
        return self.lr

    def make_optimiser(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser named, over these parameters."""
        parameters = list(parameters)
        common: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.precision == "fp16" and all(p.is_cuda for p in parameters):
            common["fused"] = True  # the only kind that learns on the GPU itself whether a step must be left out
        if self.optimiser == "sgd":
            return torch.optim.SGD(parameters, momentum=self.momentum, nesterov=self.nesterov, **common)
        kind = torch.optim.Adam if self.optimiser == "adam" else torch.optim.AdamW
        return kind(parameters, **common)

    def torch_device(self) -> torch.device:
        """The device named, once it was seen to work; of several processes on a machine, this one's."""
        try:
            device = local_device(torch.device(self.device))
            torch.zeros(1, device=device)
        except (AssertionError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise RequestError(f'device {self.device!r} cannot be used ({reason}); "cpu" always can') from error
        return device


_CHOICES = {
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "descent": DESCENTS,
    "augment": AUGMENTATIONS,
    "precision": PRECISIONS,
}


def _half_cosine(t: float) -> float:
    """From 1 at t = 0 to 0 at t = 1."""
    return (1 + math.cos(math.pi * t)) / 2


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
