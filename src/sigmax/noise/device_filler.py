"""Noisy batches made on the device the network votes on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sigmax.noise import philox

if TYPE_CHECKING:
    from sigmax.noise.votes import Item, Noisy


class DeviceFiller:
    """Writes noisy inputs into one buffer on the device that every batch reuses.

    Only which draws of which items stand in a batch goes to the device; the inputs went once. The noise of a draw
    follows from its address alone, wherever in a batch it stands.
    """

    def __init__(self, inputs: "Noisy", items: "Sequence[Item]", size: int, device: torch.device) -> None:
        self.device = device
        self.shape = inputs.x.shape[1:]
        self.x = inputs.on(device)
        self.batch = torch.empty((size, self.x.shape[1]), dtype=torch.float32, device=device)
        streams = [
            philox.stream_of(seed=inputs.seed, input_id=inputs.ids[item.position], stage=item.stage)
            for item in items
        ]
        self.words = torch.tensor(streams, dtype=torch.int64).to(device)
        self.sigmas = torch.tensor([item.ask.sigma for item in items], dtype=torch.float32).to(device)
        self.positions = torch.tensor([item.position for item in items]).to(device)

    def fill(self, spans: Sequence[tuple[int, int, int]], items: "Sequence[Item]") -> tuple[Tensor, Tensor]:
        """The batch made of the given draws of the given items, and which item each row belongs to."""
        del items  # their sigmas and positions are on the device already
        counts = [stop - start for _, start, stop in spans]
        rows = self._sent(np.repeat([i for i, _, _ in spans], counts))
        draws = self._sent(np.concatenate([np.arange(start, stop) for _, start, stop in spans]))
        batch = self.batch[: len(rows)]
        if self.device.type == "cuda":
            from sigmax.noise import philox_kernel

            philox_kernel.fill(batch, self.x, self.words, self.sigmas, self.positions, items=rows, draws=draws)
        else:
            noise = philox.normals(self.words[rows], draws, batch.shape[1])
            torch.add(noise.mul_(self.sigmas[rows][:, None]), self.x[self.positions[rows]], out=batch)
        return batch.view(-1, *self.shape), rows

    def _sent(self, numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64))
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)  # no waiting for the batch before
