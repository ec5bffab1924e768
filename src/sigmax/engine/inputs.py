"""The inputs of one call, and what is asked of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sigmax.rules.procedure import Counts, VoteRequest


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """A copy on the device; a GPU gets it in its turn, and the host does not wait for what it was given before."""
    if device.type != "cuda":
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class Noisy:
    """The inputs of one call and the address their noise comes from."""

    x: Tensor  # (inputs, ...), float32, on the CPU
    ids: Sequence[int]
    seed: int
    sent: dict[torch.device, Tensor] = field(default_factory=dict)

    def on(self, device: torch.device) -> Tensor:
        """The inputs as rows of numbers on a device, to which they go once."""
        if device not in self.sent:
            self.sent[device] = self.x.flatten(1).contiguous().to(device)
        return self.sent[device]


@dataclass(frozen=True, slots=True)
class Item:
    """A request for votes on the input at `position`, or several on the same samples.

    `known`: the answers that a record holds already.
    """

    position: int
    requests: tuple[VoteRequest, ...]
    known: tuple[Counts | None, ...] | None = None

    @property
    def request(self) -> VoteRequest:
        """The request whose samples all of them share."""
        return self.requests[0]

    @property
    def stage(self) -> str:
        """The stage that the noise is addressed by."""
        return self.request.stream or self.request.stage
