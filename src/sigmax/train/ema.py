"""A network whose weights are a running mean of those in training: noisy steps cancel out.

# w weights after step t = 1, 2, ...; e their mean; d how much of the mean is kept in a step

    e <- d_t e + (1 - d_t) w,    d_t = min(d, t / (t + 9))

Early on d_t is small, so that the first, random weights are soon forgotten whatever d is. Running statistics of
normalisation layers are averaged as weights are; whole numbers are copied.
Source: Polyak & Juditsky (1992) for averaging; the slow start is that of TensorFlow's ExponentialMovingAverage.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn


class Averaged:
    """The averaged network, `network`, and the steps it has seen."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.network = copy.deepcopy(model).requires_grad_(False).eval()
        self._weights, self._counts = _tensors(self.network)
        self._theirs, self._their_counts = _tensors(model)

    @torch.no_grad()
    def update(self) -> None:
        """Take up the model's weights after a step."""
        self.steps += 1
        kept = min(self.decay, self.steps / (self.steps + 9))
        torch._foreach_lerp_(self._weights, self._theirs, 1 - kept)
        for mine, theirs in zip(self._counts, self._their_counts, strict=True):
            mine.copy_(theirs)

    def state_dict(self) -> dict[str, Any]:
        """The averaged tensors and the number of steps."""
        return {"steps": self.steps, "network": self.network.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the mean of an earlier attempt."""
        self.steps = state["steps"]
        self.network.load_state_dict(state["network"])


def _tensors(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The very tensors of a network that are floats, and those that are not."""
    everything = [*(p.detach() for p in model.parameters()), *model.buffers()]
    floats = [tensor for tensor in everything if tensor.is_floating_point()]
    return floats, [tensor for tensor in everything if not tensor.is_floating_point()]
