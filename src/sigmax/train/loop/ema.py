"""A network whose weights are a running mean of those in training: noisy steps cancel out.

# w weights after step t = 1, 2, ...; e their mean; d how much of the mean is kept in a step

    e = w at t = 1, then  e <- d_t e + (1 - d_t) w,    d_t = min(d, t / (t + 9))

Early on d_t is small, so that the first weights are soon forgotten whatever d is. Running statistics of
normalisation layers are averaged as weights are; whole numbers are copied.
Source: Polyak & Juditsky (1992) for averaging; the slow start is that of TensorFlow's ExponentialMovingAverage.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Tensors = tuple[Tensor, ...] | list[Tensor]


class Averaged(AveragedModel):
    """The averaged network, `module`, in eval mode, and the steps it has seen."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model, multi_avg_fn=self._average, use_buffers=True)
        self.decay = decay
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def _average(self, averaged: Tensors, current: Tensors, count: Any) -> None:
        if not averaged[0].is_floating_point():
            for mine, theirs in zip(averaged, current, strict=True):
                mine.copy_(theirs)
            return
        step = int(self.n_averaged) + 1  # on the CPU, where asking costs nothing
        average: Any = get_ema_multi_avg_fn(min(self.decay, step / (step + 9)))  # type: ignore[no-untyped-call]
        average(averaged, current, count)
