"""How a classifier in training does, smoothed, on images it is not trained on: a diagnostic, not a certificate.

With 100 samples at alpha 0.001 no radius reaches far beyond 1.5 sigma, so nothing larger is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sigmax import bounds, radius
from sigmax.data import Dataset
from sigmax.engine.settings import GPU_BATCH, cpu_batch, keep_freed_memory
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.denoised import answers
from sigmax.train.loop.fit import VALIDATION, seeded
from sigmax.train.loop.noisy import NoiseName, distribution, noisy_copies
from sigmax.train.loop.stored import in_unit

SAMPLES, ALPHA = 100, 1e-3  # samples an image, and the chance that its radius is wrong
IMAGES = 500  # checked, at most
VOTED_TOGETHER = 256  # inputs a call of a smoothed classifier
GPU_NUMBERS = 2**27  # values in a batch on a GPU, at most: 891 photographs of 224x224 pixels
RADII = (0.0, 0.5, 1.0, 1.5)  # of the certified accuracies, in sigmas


@dataclass(frozen=True)
class QuickCheck:
    """Called after each epoch: every `every` epochs, and after the last, what the smoothed classifier does.

    The mapping it returns: `accuracy`, the share of noisy images classified right; `smoothed`, the share of images
    whose leading class is right; `radius`, their mean radius; `certified`, the share certified at least as far as each
    of `radii`, in pixels. Without noise (sigma 0) there is `accuracy` alone.
    """

    pixels: Tensor  # (n, C, H, W), on the device of the model, uint8 or float32 in [0, 1]
    labels: NDArray[np.int64]  # (n,)
    classes: int
    sigma: float  # in pixels
    seed: int
    epochs: int  # how many there will be
    every: int = 1
    noise: NoiseName = "gaussian"

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, Any]:
        """What was found after the epoch, counted from 0; nothing where it is not the epoch's turn."""
        if (epoch + 1) % self.every and epoch + 1 < self.epochs:
            return {}
        samples = SAMPLES if self.sigma > 0 else 1
        with seeded(self.seed, epoch + 1, VALIDATION, device=self.pixels.device) as generator:
            how: dict[str, Any] = {"classes": self.classes, "samples": samples, "generator": generator}
            counts = vote(model, self.pixels, self.sigma, **how, noise=self.noise)
        right = counts[np.arange(len(counts)), self.labels]
        found = {"images": len(counts), "samples": samples, "accuracy": float(right.mean() / samples)}
        return found if self.sigma == 0 else {**found, **self._certified(counts)}

    def _certified(self, counts: NDArray[np.int64]) -> dict[str, Any]:
        leads = counts.argmax(axis=1) == self.labels
        lower, noise = bounds.lower(counts.max(axis=1), SAMPLES, ALPHA), distribution(self.noise, self.sigma)
        reached = np.where(leads, [radius.smoothed(noise, p) for p in lower.tolist()], 0.0)
        radii = [times * self.sigma for times in RADII]
        return {
            "smoothed": float(leads.mean()),
            "radii": radii,
            "certified": [float(((reached >= r) & (reached > 0)).mean()) for r in radii],
            "radius": float(reached.mean()),
        }


def vote(
    model: nn.Module,
    pixels: Tensor,
    sigma: float,
    *,
    classes: int,
    samples: int,
    generator: torch.Generator,
    noise: NoiseName = "gaussian",
) -> NDArray[np.int64]:
    """How often each class is the answer for each image, (images, classes), in so many samples of noise."""
    counts = torch.zeros(len(pixels) * classes, dtype=torch.int64, device=pixels.device)
    for row, logits in noisy_answers(model, pixels, sigma, samples=samples, generator=generator, noise=noise):
        cells = row * classes + logits.argmax(dim=1)
        counts.scatter_add_(0, cells, torch.ones_like(cells))
    table: NDArray[np.int64] = counts.view(-1, classes).cpu().numpy()
    return table


def noisy_answers(
    model: nn.Module,
    pixels: Tensor,
    sigma: float,
    *,
    samples: int,
    generator: torch.Generator,
    noise: NoiseName = "gaussian",
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batch by batch: which images, each so many times in a row, and the logits of a noisy copy of each."""
    rows = torch.arange(len(pixels), device=pixels.device).repeat_interleave(samples)
    numbers = pixels[0].numel()
    size = cpu_batch(numbers) if pixels.device.type == "cpu" else min(GPU_BATCH, max(1, GPU_NUMBERS // numbers))
    keep_freed_memory()
    for first in range(0, len(rows), size):
        row = rows[first : first + size]
        with torch.inference_mode():
            logits = answers(model, noisy_copies(in_unit(pixels[row]), sigma, 1, generator, noise), sigma)
        yield row, logits


def votes_of(
    smoothed: Smoothed, dataset: Dataset, indices: NDArray[np.int64], *, n: int, seed: int
) -> NDArray[np.int64]:
    """The votes for each class that certification would count, (inputs, classes), of the inputs at these indices."""
    found = []
    for first in range(0, len(indices), VOTED_TOGETHER):
        part = indices[first : first + VOTED_TOGETHER].tolist()
        # The counts are asked for, not whether they show a class to lead: any alpha will do.
        votes = smoothed.predict(dataset.pixels(part), n=n, alpha=0.5, seed=seed, ids=part)
        found += [vote.stages[0].counts for vote in votes]
    return np.array(found)
