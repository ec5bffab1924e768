"""Every number a training run depends on, in one place, checked when it is written down."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn
from torch.optim import Optimizer

from sigmax.config.validation import Count, Positive, Seed, Share, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.distributed import local_device

Optimiser = Literal["sgd", "adam", "adamw"]
Schedule = Literal["constant", "cosine", "step", "one-cycle"]
Descent = Literal["linear", "cosine"]
Augmentation = Literal["none", "crop", "crop-flip", "strong", "resized"]
Precision = Literal["fp32", "bf16", "fp16"]


@options(kw_only=True)
class Settings:
    """How to train. The defaults suit the digits: about seven seconds a model on one CPU core."""

    epochs: Annotated[Count, about("passes over the training images")] = 120
    batch: Annotated[Count, about("noisy images in a step, at most, over all processes")] = 64
    optimiser: Annotated[Optimiser, about("what turns gradients into steps")] = "sgd"
    lr: Annotated[Positive, about("learning rate at the start; with one-cycle at its peak")] = 0.1
    momentum: Annotated[Share, about("share of the last step kept; sgd only")] = 0.9
    nesterov: Annotated[bool, about("take the gradient where momentum leads; sgd only")] = False
    weight_decay: Annotated[Weight, about("pull to zero in each step, relative to the learning rate")] = 5e-4
    schedule: Annotated[Schedule, about("of the learning rate")] = "cosine"
    step_epochs: Annotated[Count, about("epochs between two drops of a step schedule")] = 50
    step_factor: Annotated[float, Field(gt=0, le=1, description="factor of the learning rate at a drop")] = 0.1
    warmup: Annotated[Share, about("share of the run in which a one-cycle schedule climbs")] = 0.25
    descent: Annotated[Descent, about("how a one-cycle schedule falls after that")] = "linear"
    clip: Annotated[Weight, about("largest l2 norm of a step's gradient, all weights together; 0: no limit")] = 0.0
    ema: Annotated[Share, about("share of the averaged weights kept in a step; 0: no averaging")] = 0.0
    precision: Annotated[Precision, about("of the forward pass; weights and losses are 32-bit floats")] = "fp32"
    channels_last: Annotated[bool, about("memory layout that is faster on GPUs")] = False
    compile: Annotated[bool, about("compile the network: minutes at first, then faster steps")] = False
    augment: Annotated[
        Augmentation,
        about(
            "crop: shifts by up to an eighth of the side; crop-flip: mirror images too; strong: also warped, tinted "
            "and covered; resized: for photographs, parts of 5/7 to all of the side, enlarged, and mirror images"
        ),
    ] = "none"
    seed: Annotated[Seed, about("fixes first weights, order of the images, augmentation and noise")] = 0
    threads: Annotated[Count, about("CPU threads; sums depend on them in the last bit")] = 1
    device: Annotated[str, about("where to compute: cpu, cuda, cuda:1; no part of what is computed")] = "cpu"

    def __post_init__(self) -> None:
        if self.nesterov and (self.optimiser != "sgd" or self.momentum == 0):
            raise RequestError(
                f"nesterov: expected sgd with momentum, got {self.optimiser} with momentum={self.momentum}; turn it off"
            )

    def plan(self) -> dict[str, Any]:
        """The settings that decide the result: all but the device."""
        return {name: value for name, value in asdict(self).items() if name != "device"}

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


def _half_cosine(t: float) -> float:
    """From 1 at t = 0 to 0 at t = 1."""
    return (1 + math.cos(math.pi * t)) / 2
