"""How a classifier in training does, smoothed, on images it is not trained on.

It is a diagnostic, not a certificate: the same draws pick a class and bound it, and no budget is kept. With 100
draws at alpha 0.001 no radius reaches far beyond 1.5 sigma, so nothing larger is asked for.
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
from sigmax.errors import RequestError
from sigmax.noise.voter import GPU_BATCH, cpu_batch, keep_freed_memory
from sigmax.train.behind import answers
from sigmax.train.loop import VALIDATION, seeded

DRAWS, ALPHA = 100, 1e-3  # draws an image, and the chance that its radius is wrong
IMAGES = 500  # looked at, at most
RADII = (0.0, 0.5, 1.0, 1.5)  # at which certified accuracy is told, in sigmas
HELD_OUT = 3  # with the seed: which images are held out

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class QuickCheck:
    """Called after each epoch: every `every` epochs, and after the last, what the smoothed classifier does.

    The mapping it returns: `accuracy`, the share of noisy images classified right; `smoothed`, the share of images
    whose leading class is right; `radii`, in pixels, and `certified`, the share that is right and certified at
    least as far as each of them; `radius`, the mean radius, 0 where the class is wrong or not shown to lead.
    Without noise (sigma 0) there is nothing to certify and `accuracy` is told alone.
    """

    pixels: Tensor  # (n, C, H, W), on the device of the model
    labels: NDArray[np.int64]  # (n,)
    classes: int
    sigma: float  # in pixels
    seed: int
    epochs: int  # how many there will be
    every: int = 1

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, Any]:
        """What was found after the epoch, counted from 0; nothing where it is not the epoch's turn."""
        if (epoch + 1) % self.every and epoch + 1 < self.epochs:
            return {}
        draws = DRAWS if self.sigma > 0 else 1
        with seeded(self.seed, epoch + 1, VALIDATION, device=self.pixels.device) as generator:
            counts = vote(model, self.pixels, self.sigma, classes=self.classes, draws=draws, generator=generator)
        right = counts[np.arange(len(counts)), self.labels]
        found = {"images": len(counts), "draws": draws, "accuracy": float(right.mean() / draws)}
        return found if self.sigma == 0 else {**found, **self._certified(counts)}

    def _certified(self, counts: NDArray[np.int64]) -> dict[str, Any]:
        leads = counts.argmax(axis=1) == self.labels
        reached = np.where(leads, radius.gaussian(self.sigma, bounds.lower(counts.max(axis=1), DRAWS, ALPHA)), 0.0)
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
    draws: int,
    generator: torch.Generator,
) -> NDArray[np.int64]:
    """How often each class is the answer for each image, (images, classes), in so many draws of noise."""
    counts = torch.zeros(len(pixels) * classes, dtype=torch.int64, device=pixels.device)
    for row, logits in noisy_answers(model, pixels, sigma, draws=draws, generator=generator):
        cells = row * classes + logits.argmax(dim=1)
        counts.scatter_add_(0, cells, torch.ones_like(cells))
    table: NDArray[np.int64] = counts.view(-1, classes).cpu().numpy()
    return table


def noisy_answers(
    model: nn.Module, pixels: Tensor, sigma: float, *, draws: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batch by batch: which images, each so many times in a row, and the logits of a noisy copy of each."""
    rows = torch.arange(len(pixels), device=pixels.device).repeat_interleave(draws)
    size = cpu_batch(pixels[0].numel()) if pixels.device.type == "cpu" else GPU_BATCH
    keep_freed_memory()
    for first in range(0, len(rows), size):
        row = rows[first : first + size]
        with torch.inference_mode():
            noise = torch.randn(len(row), *pixels.shape[1:], device=pixels.device, generator=generator)
            logits = answers(model, noise.mul_(sigma).add_(pixels[row]), sigma)
        yield row, logits


def split(count: int, share: float, seed: int) -> tuple[Indices, Indices]:
    """Which of `count` images are held out, in random order, and which are trained on; the same everywhere."""
    if not 0 < share < 1:
        raise RequestError(f"validation must lie between 0 and 1, got {share!r}; 0.1 holds out a tenth, 0 nothing")
    aside = round(share * count)
    if not 0 < aside < count:
        raise RequestError(
            f"validation={share:g} of {count} images leaves {aside} to check on and {count - aside} to train on, "
            "and both need some; choose another share"
        )
    order = np.argsort(np.random.SFC64([seed, HELD_OUT]).random_raw(count), kind="stable").astype(np.int64)
    return order[:aside], np.sort(order[aside:])


def refuse_other_kind(held: Dataset, taught: Dataset) -> None:
    """Raise unless images of the two sets have the same shape and classes."""
    for what, theirs, ours in (("shape", held.shape, taught.shape), ("classes", held.classes, taught.classes)):
        if theirs != ours:
            raise RequestError(
                f"the images to check on have other {what} than those to train on: {theirs} and {ours}; "
                "give a split of the same data"
            )
