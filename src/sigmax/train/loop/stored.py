"""Training images as they are held: as 8-bit integers where the data is, which is a quarter of the memory of floats.

Image files that fit are decoded once and held on the device; of a larger set each batch is decoded while the steps
before it are computed. Both give the same pixels.
"""

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigmax.data import Dataset
from sigmax.data.pictures import ImageFiles

HELD_ON_CPU = 8 * 2**30  # bytes of decoded image files that are held; more are decoded batch by batch
HELD_ON_GPU = 1 / 4  # likewise, as a share of the memory that is free
THREADS = os.cpu_count() or 1  # Pillow decodes outside Python's lock
TOGETHER = 64  # image files a thread decodes in one go, at most
AHEAD = 4  # batches that are decoded while one is trained on

Which = Tensor | slice


@dataclass(frozen=True)
class Streamed:
    """Image files that are decoded whenever they are asked for, (N, C, H, W) of uint8, as a tensor would be asked."""

    files: ImageFiles
    device: torch.device

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, which: Which) -> Tensor:
        return next(self.batches([which]))

    def take(self, which: Tensor) -> "Streamed":
        """Some of the files."""
        return Streamed(self.files.take(which.cpu().numpy()), self.device)

    def batches(self, parts: Sequence[Which]) -> Iterator[Tensor]:
        """The images of each part, in turn; those of the next parts are decoded meanwhile."""
        waiting: deque[list[Future[NDArray[np.uint8]]]] = deque()
        threads = ThreadPoolExecutor(THREADS)
        try:
            for part in parts:
                waiting.append([threads.submit(self.files.read, some) for some in self._shared_out(part)])
                if len(waiting) > AHEAD:
                    yield self._joined(waiting.popleft())
            while waiting:
                yield self._joined(waiting.popleft())
        finally:
            threads.shutdown(cancel_futures=True)  # a run that fails waits for no image that it does not need

    def _shared_out(self, part: Which) -> list[NDArray[np.int64]]:
        chosen = np.arange(len(self))[part] if isinstance(part, slice) else part.cpu().numpy()
        pieces = max(-(-len(chosen) // TOGETHER), min(THREADS, len(chosen)), 1)
        return np.array_split(chosen, pieces)

    def _joined(self, decoded: Sequence[Future[NDArray[np.uint8]]]) -> Tensor:
        images = torch.from_numpy(np.concatenate([part.result() for part in decoded]))
        return images.to(self.device)


def stored(dataset: Dataset, device: torch.device) -> Tensor | Streamed:
    """The images of a data set, to train on: uint8 of files and of arrays that are, else float32 in [0, 1]."""
    if isinstance(dataset.images, ImageFiles):
        streamed = Streamed(dataset.images, device)
        room = HELD_ON_GPU * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else HELD_ON_CPU
        return streamed if len(dataset) * math.prod(dataset.shape) > room else _held(streamed, dataset.shape)
    return on_device(dataset, device)


def on_device(dataset: Dataset, device: torch.device) -> Tensor:
    """The same, on the device however many they are."""
    if isinstance(dataset.images, ImageFiles):
        return _held(Streamed(dataset.images, device), dataset.shape)
    if isinstance(dataset.images, np.ndarray) and dataset.images.dtype == np.uint8:
        return torch.tensor(dataset.images, device=device)
    return torch.from_numpy(dataset.pixels(np.arange(len(dataset)))).to(device)


def in_unit(images: Tensor) -> Tensor:
    """Images as float32 in [0, 1], as `Dataset.pixels` has them to the last bit."""
    # By a tensor: a GPU would multiply by the rounded inverse of a number.
    return images if images.dtype != torch.uint8 else images.float() / torch.tensor(255.0, device=images.device)


def _held(streamed: Streamed, shape: tuple[int, int, int]) -> Tensor:
    images = torch.empty((len(streamed), *shape), dtype=torch.uint8, device=streamed.device)
    firsts = range(0, len(streamed), TOGETHER * THREADS)
    parts = [slice(first, first + TOGETHER * THREADS) for first in firsts]
    for part, decoded in zip(parts, streamed.batches(parts), strict=True):
        images[part] = decoded
    return images
