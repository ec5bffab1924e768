"""Stops a run whose loss is no longer a number, before it can replace what is good.

A GPU works asynchronously: asking it for the loss of every step would make it wait. So losses are kept
where they are and checked together, every WINDOW steps; on a CPU, where it costs nothing, after every step.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.errors import RunError
from sigmax.train.loop.distributed import Team
from sigmax.train.loop.settings import Settings

WINDOW = 25  # steps between two checks


class Guard:
    """Watches the losses of an epoch's steps. `plan` is the method's."""

    def __init__(self, settings: Settings, plan: dict[str, Any], team: Team, device: torch.device, kept: Path) -> None:
        self.settings, self.plan, self.team, self.kept = settings, plan, team, kept
        self.window = 1 if device.type == "cpu" and team.size == 1 else WINDOW
        self.losses: list[Tensor] = []

    def see(self, loss: Tensor, epoch: int, step: int, steps: int) -> None:
        """A step's loss, weighed by the team, epoch and step from 0; raises if one was not finite."""
        self.losses.append(loss)
        if len(self.losses) < self.window and step + 1 < steps:
            return
        # The mean over the processes, so that all of them see the same and stop together.
        found = (self.team.sum(torch.stack(self.losses)) / self.team.size).tolist()
        first = step + 1 - len(found)
        self.losses = []
        for i, value in enumerate(found):
            if not math.isfinite(value):
                raise self._error(f"the loss became {value}", epoch, first + i, steps)

    def check_weights(self, model: nn.Module, epoch: int, steps: int) -> None:
        """Raise unless all weights are finite: the last step may have broken them without any loss to show it."""
        floats = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
        if floats and not bool(torch.stack([tensor.detach().isfinite().all() for tensor in floats]).all()):
            raise self._error("weights became infinite", epoch, steps - 1, steps)

    def _error(self, what: str, epoch: int, step: int, steps: int) -> RunError:
        lr = self.settings.learning_rate(epoch + step / steps)
        hyper = [f"{name}={value}" for name, value in self.plan.items() if isinstance(value, int | float | tuple)]
        state = f"{self.kept} holds the state after an earlier epoch" if epoch else "no epoch was finished"
        cures = [f"a smaller lr than {self.settings.lr:g}"]
        if self.settings.clip == 0:
            cures.append("clip=1 to limit gradients")
        if self.settings.precision == "fp16":
            cures.append('precision="bf16", which has the range of fp32')
        return RunError(
            f"{what} in epoch {epoch + 1}: training diverged at step {step + 1} of the epoch's {steps}, with "
            f"method {self.plan['name']} ({', '.join(hyper)}), {self.settings.optimiser} at learning rate {lr:.3g}, "
            f"batch {self.settings.batch} and precision {self.settings.precision}. {state}. The same run "
            f"would diverge again: start a new one with {' or '.join(cures)}"
        )
