"""What the processes of test_distributed.py do: run alone, or by torchrun, with a folder as argument.

Each process works in a folder of its own, so that it shows who writes files.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sigmax import data, models
from sigmax.errors import RequestError, RunError
from sigmax.train import GaussianTraining, Method, Score, Settings, train_classifier
from sigmax.train.loop.noisy import noisy_copies

DIGITS = data.load("digits", "train").take(np.arange(203))
SETTINGS = Settings(epochs=3, batch=50, lr=0.05, augment="crop-flip", seed=5)


def normalised(*, classes, input_shape):
    """With batch norm, which torch does not synchronise on CPUs."""
    channels = input_shape[0]
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6 * 64, classes)
    )


@dataclass
class Remembering(Method):
    """Keeps a running loss of every example, which weighs it; attacks its noise as other methods do."""

    name: ClassVar[str] = "remembering"
    sigma: float
    losses: torch.Tensor = field(default_factory=lambda: torch.zeros(len(DIGITS)), repr=False)

    def plan(self):
        return {"name": self.name, "sigma": self.sigma}

    def score(self, model, batch):
        noisy = noisy_copies(batch.pixels, self.sigma, 1, batch.generator).requires_grad_()
        model.eval()
        for _ in range(2):
            (slope,) = torch.autograd.grad(functional.cross_entropy(model(noisy), batch.targets), noisy)
            noisy = (noisy + 0.05 * slope.sign()).detach().requires_grad_()
        model.train()
        logits = model(noisy.detach())
        losses = functional.cross_entropy(logits, batch.targets, reduction="none")
        weights = 1 + self.losses[batch.indices]
        self.losses[batch.indices] = (self.losses[batch.indices] + losses.detach()) / 2
        return Score((losses * weights).mean(), (logits.argmax(1) == batch.targets).float().mean())

    def per_example(self):
        return [self.losses]

    def state_dict(self):
        return {"losses": self.losses}

    def load_state_dict(self, state):
        self.losses = state["losses"]


class Broken(GaussianTraining):
    """The loss of one example in the second epoch is no number: one process alone sees it."""

    name: ClassVar[str] = "broken"

    def score(self, model, batch):
        loss, accuracy = super().score(model, batch)
        broken = batch.epoch == 1 and bool((batch.indices == 77).any())
        return Score(loss * (float("nan") if broken else 1.0), accuracy)


def train(name, method, architecture="small-cnn", dataset=DIGITS, settings=SETTINGS, **more):
    train_classifier(
        dataset,
        architecture=architecture,
        sigma=0.25,
        method=method,
        settings=settings,
        out=f"{name}.safetensors",
        **more,
    )


def refused(name, *args, **more):
    """Write down how the run failed."""
    try:
        train(name, *args, **more)
    except (RequestError, RunError) as error:
        # In one piece, newline included: two processes speak into one pipe.
        said = json.dumps([name, os.environ.get("RANK"), type(error).__name__, str(error)]) + "\n"
        os.write(sys.stdout.fileno(), said.encode())


def stop(done, total):
    if done == 12:  # in the third of three epochs with five steps each
        os.kill(os.getpid(), signal.SIGKILL)


AVERAGED = Settings(epochs=3, batch=50, lr=0.05, ema=0.9, clip=1.0, seed=5)


def main(folder, what):
    """All scenarios that end well or in an error; or one that is killed, or its second half beside one left alone."""
    here = folder / os.environ.get("RANK", "alone")
    here.mkdir(parents=True, exist_ok=True)
    os.chdir(here)
    if what == "cut":
        train("cut", GaussianTraining, settings=AVERAGED, on_step=stop)
    if what == "resume":
        train("cut", GaussianTraining, settings=AVERAGED)
        train("uncut", GaussianTraining, settings=AVERAGED)
    if what == "whole":
        # 203 images: nine batches of 22 or 23, and the two processes' shares are unequal.
        train("copies", lambda sigma: GaussianTraining(sigma, copies=2), settings=AVERAGED, validation=0.1)
        memory = Remembering(0.25)
        train("memory", lambda _: memory)
        np.save("losses.npy", memory.losses.numpy())
    if what == "whole" and "RANK" in os.environ:
        models.register("normalised")(normalised)
        refused("broken", Broken)
        refused("copies", Broken)
        refused("small", GaussianTraining, dataset=DIGITS.take([0]))
        refused("normalised", GaussianTraining, "normalised")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2])
