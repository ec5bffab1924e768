"""Batches of split images: the middles of the intervals that an image's numbers lie in, offset by offset.

# k = grid * x whole; s offset of a number, in steps; cuts at s + 1/2 + m z; all is computed in whole numbers
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from sigmax.engine.inputs import Item, Noisy
from sigmax.radius.splitting import Split


def split_copies(steps: Tensor, noise: Split, first: int, last: int) -> Tensor:
    """The image of these whole steps, (numbers,), as seen at the offsets `first` to `last`: (last - first, numbers).

    A number is seen as a whole number of quarter steps, which depends on its interval alone, divided once.
    """
    return seen_at(steps, torch.arange(first, last, device=steps.device), noise)


def seen_at(steps: Tensor, looks: Tensor, noise: Split) -> Tensor:
    """Images of whole steps, (looks, numbers) or one for all, as each is seen at a look, (looks,)."""
    m = noise.offsets
    s = (looks[:, None] + _shifts_on(steps.device, noise, steps.shape[-1])) % m
    below = 2 * (s + m * torch.div(steps - s - 1, m, rounding_mode="floor")) + 1  # the cut below, in half steps
    return (below.clamp_min(0) + (below + 2 * m).clamp_max(2 * noise.grid)).float().div_(4 * noise.grid)


@lru_cache(maxsize=8)
def _shifts_on(device: torch.device, noise: Split, numbers: int) -> Tensor:
    """The shifts, sent once: a copy to a GPU waits for the votes that it has to count."""
    return torch.tensor(noise.shifts(numbers), device=device)


class SplitFiller:
    """Writes split images into one buffer that every batch reuses, on the device where the network votes."""

    def __init__(self, inputs: Noisy, items: Sequence[Item], size: int, device: torch.device) -> None:
        self.items, self.device, self.shape = items, device, inputs.x.shape[1:]
        self.x = inputs.on(device)
        self.batch = torch.empty((size, self.x.shape[1]), dtype=torch.float32, device=device)
        self.rows = torch.empty(size, dtype=torch.int64, device=device)

    def fill(self, spans: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor]:
        """The batch of these offsets of these items, and which item each row belongs to."""
        used = 0
        for i, first, last in spans:
            item = self.items[i]
            noise = item.request.noise
            assert isinstance(noise, Split)
            steps = (self.x[item.position] * noise.grid).round().long()
            end = used + last - first
            self.batch[used:end] = split_copies(steps, noise, first, last)
            self.rows[used:end] = i
            used = end
        return self.batch[:used].view(-1, *self.shape), self.rows[:used]
