"""The inputs of one call, and what is asked of each."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sigmax.noise.addressed import BlockSource
from sigmax.noise.sampler import Sampler
from sigmax.rules.procedure import Counts, VoteRequest


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """A copy on the device; a GPU gets it in its turn, and the host does not wait for what it was given before."""
    if device.type != "cuda":
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)


class Arriving:
    """Numbers on the way to the host.

    A GPU sends them in their turn: they arrive before anything that it was given after them is done.
    """

    def __init__(self, numbers: Tensor) -> None:
        self._event = None
        self._numbers = numbers
        if numbers.device.type == "cuda":
            self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, device="cpu", pin_memory=True)
            self._numbers.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(numbers.device))

    def wait(self) -> Tensor:
        """The numbers, on the CPU."""
        if self._event is not None:
            self._event.synchronize()
        return self._numbers


@dataclass(frozen=True, slots=True)
class Noisy:
    """The inputs of one call and the address their noise comes from.

    A certificate needs noise that is independent of the network and of the input. Seeds and ids are small public
    numbers: a network could have been built around the noise of seed 0, and input i of a validation set would share
    its noise with input i of the test set. So a scheme that certifies gives the hash of its `weights`, and then the
    noise of an input follows from seed, id, weights and the input itself; whoever changes the weights or the pixels
    gets other noise. Of a plain function nothing can be hashed: its seed must be chosen after it.
    """

    x: Tensor  # (inputs, ...), float32, on the CPU
    ids: Sequence[int]
    seed: int
    weights: str | None = None
    sent: dict[torch.device, Tensor] = field(default_factory=dict)
    keys: dict[int, tuple[int, int]] = field(default_factory=dict)
    sources: dict[Sampler, BlockSource] = field(default_factory=dict)  # of a CPU's noise; they go on at the next look

    def source(self, sampler: Sampler) -> BlockSource:
        """The one source of a CPU's noise, which knows where it left every block."""
        if sampler not in self.sources:
            self.sources[sampler] = BlockSource(sampler)
        return self.sources[sampler]

    def key(self, position: int) -> tuple[int, int]:
        """The two 64-bit numbers that the noise of an input is addressed by; computed once."""
        if self.weights is None:
            return self.seed, self.ids[position]
        if position not in self.keys:
            self.keys[position] = mixed(self.seed, self.ids[position], self.weights, self.x[position])
        return self.keys[position]

    def on(self, device: torch.device) -> Tensor:
        """The inputs as rows of numbers on a device, to which they go once."""
        if device not in self.sent:
            self.sent[device] = self.x.flatten(1).contiguous().to(device)
        return self.sent[device]


def mixed(seed: int, input_id: int, weights: str, x: Tensor) -> tuple[int, int]:
    """Seed, id, weights and input as 128 bits: those of other weights or another input are others."""
    pixels = x.numpy()
    shape = ",".join(map(str, pixels.shape))
    # Every part has a known length or ends with a byte that none of it holds, so no two addresses read the same.
    digest = hashlib.shake_128(struct.pack("<QQ", seed, input_id) + f"{weights}\n{shape}\n".encode())
    digest.update((pixels + np.float32(0)).astype("<f4", copy=False).tobytes())  # -0.0 is the same input as 0.0
    first, second = struct.unpack("<QQ", digest.digest(16))
    return first, second


@dataclass(frozen=True, slots=True)
class Item:
    """A request for votes on the input at `position`, or several on the same samples.

    `known`: the answers that a record holds already. `ahead`: it is likely to be asked, but was not yet.
    """

    position: int
    requests: tuple[VoteRequest, ...]
    known: tuple[Counts | None, ...] | None = None
    ahead: bool = False

    @property
    def request(self) -> VoteRequest:
        """The request whose samples all of them share."""
        return self.requests[0]

    @property
    def stage(self) -> str:
        """The stage that the noise is addressed by."""
        return self.request.stream or self.request.stage
