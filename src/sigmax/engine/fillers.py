"""Batches of noisy inputs: sampled block by block on a CPU, computed where the network votes on a GPU.

The items of a batch have one noise distribution and one grid, each its own level.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sigmax.engine.inputs import Item, Noisy, sent
from sigmax.engine.splits import SplitFiller
from sigmax.noise import philox, sampler_of
from sigmax.noise.addressed import BLOCK, Address, BlockSource, empty
from sigmax.noise.sampler import Rows
from sigmax.radius.noise import grid_of
from sigmax.radius.splitting import Split

WORTH_A_THREAD = 32_768  # numbers a block: fewer are sampled faster than another thread is started
Spans = Sequence[tuple[int, int, int]]  # which samples of which items stand in a batch: (item, first, last)


def filler_for(
    device: torch.device, inputs: Noisy, items: Sequence[Item], size: int
) -> "CpuFiller | DeviceFiller | SplitFiller":
    """What fills the batches of a network on this device."""
    if isinstance(items[0].request.noise, Split):
        return SplitFiller(inputs, items, size, device)
    kind = CpuFiller if device.type == "cpu" else DeviceFiller
    return kind(inputs, items, size, device)


class Piece(NamedTuple):
    """Rows `first` to `last` of a batch: the samples of one block of noise from `low` on."""

    first: int
    last: int
    address: Address
    low: int
    more: bool  # whether later samples of the stage may be asked for


class CpuFiller:
    """Writes noisy inputs into one buffer that every batch reuses.

    Large whole blocks are sampled by several threads at once. A block that the batch's edge cuts is sampled by one
    source that stays where it is, because the next batch goes on with it.
    """

    def __init__(self, inputs: Noisy, items: Sequence[Item], size: int, device: torch.device) -> None:
        del device  # it is the CPU
        self.inputs, self.items = inputs, items
        self.sampler = sampler_of(items[0].request.noise)
        shape = inputs.x.shape[1:]
        self.batch = empty((size, *shape))
        self.numbers, self.x = self.batch.numpy(), inputs.x.numpy()  # the same memory; slices cost less than a tensor's
        self.rows = np.empty(size, dtype=np.int64)
        self.source = inputs.source(self.sampler)
        self.thread = threading.local()  # each thread's own source
        threads = torch.get_num_threads() if BLOCK * shape.numel() >= WORTH_A_THREAD else 1
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def fill(self, spans: Spans) -> tuple[Tensor, Tensor]:
        """The batch of these samples, and which item each row belongs to."""
        if self.pool is not None:
            self._sample_blocks(self.pool, spans)
        used = 0
        for i, start, stop in spans:
            item, end = self.items[i], used + stop - start
            for piece in self._pieces(item, used, start, stop):
                if self.pool is None or piece.last - piece.first < BLOCK:
                    self._sample_from(self.source, piece)
            # At once, while the samples are in the processor's cache.
            self.sampler.add_to(self.x[item.position], item.request.noise, self.numbers[used:end])
            self.rows[used:end] = i
            used = end
        return self.batch[:used], torch.from_numpy(self.rows[:used])

    def _pieces(self, item: Item, row: int, start: int, stop: int) -> list[Piece]:
        seed, input_id = self.inputs.key(item.position)
        stage, end, pieces = item.stage, item.request.end, list[Piece]()
        while start < stop:
            index, low = divmod(start, BLOCK)
            last = row + min(stop - start, BLOCK - low)
            start += last - row
            pieces.append(Piece(row, last, Address(seed, input_id, stage, index), low, start < end))
            row = last
        return pieces

    def _sample_blocks(self, pool: ThreadPoolExecutor, spans: Spans) -> None:
        used, whole = 0, list[Piece]()
        for i, start, stop in spans:
            whole += [p for p in self._pieces(self.items[i], used, start, stop) if p.last - p.first == BLOCK]
            used += stop - start
        list(pool.map(self._sample_in_thread, whole))

    def _sample_in_thread(self, piece: Piece) -> None:
        if not hasattr(self.thread, "source"):
            self.thread.source = BlockSource(self.sampler)
        self._sample_from(self.thread.source, piece)

    def _sample_from(self, source: BlockSource, piece: Piece) -> None:
        source.fill(self.numbers[piece.first : piece.last], piece.address, piece.low, more=piece.more)


class DeviceFiller:
    """Writes noisy inputs into one buffer on the device that every batch reuses.

    Only which samples of which items stand in a batch goes to the device; the inputs went once. The noise of a
    sample follows from its address alone, wherever in a batch it stands.
    """

    def __init__(self, inputs: Noisy, items: Sequence[Item], size: int, device: torch.device) -> None:
        self.device = device
        self.shape = inputs.x.shape[1:]
        self.x = inputs.on(device)
        self.batch = torch.empty((size, self.x.shape[1]), dtype=torch.float32, device=device)
        keys = [inputs.key(item.position) for item in items]
        streams = [
            philox.stream_of(seed=seed, input_id=input_id, stage=item.stage)
            for (seed, input_id), item in zip(keys, items, strict=True)
        ]
        self.sampler = sampler_of(items[0].request.noise)
        self.streams = sent(torch.tensor(streams, dtype=torch.int64), device)
        self.levels = sent(self.sampler.levels([item.request.noise for item in items]), device)
        self.grid = grid_of(items[0].request.noise)
        self.positions = sent(torch.tensor([item.position for item in items]), device)

    def fill(self, spans: Spans) -> tuple[Tensor, Tensor]:
        """The batch of these samples, and which item each row belongs to."""
        items = self._sent(np.repeat([i for i, _, _ in spans], [stop - start for _, start, stop in spans]))
        samples = self._sent(np.concatenate([np.arange(start, stop) for _, start, stop in spans]))
        batch = self.batch[: len(items)]
        self.sampler.write(Rows(batch, self.x, self.streams, self.levels, self.positions, items, samples, self.grid))
        return batch.view(-1, *self.shape), items

    def _sent(self, numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Tensor:
        return sent(torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64)), self.device)
