"""Which inputs a method learns from: the size of each input's gradient, beside how easy the input is.

# x input; p_A(x) share of noisy votes for its true class; g(x) gradient of the method's loss of x in all parameters
# easy: p_A > 1/2; hard: p_A < 1/2; inputs at exactly 1/2 are neither

The paper's table has the mean of |g(x)|_2 over easy and over hard inputs, and easy / hard, their ratio. A group's
share is the sum of its norms over the sum of all: there the sizes of the groups weigh in as well.
Source: Sun et al. (2025), "Average Certified Radius is a Poor Metric for Randomized Smoothing", Sec. 4.3, Table 2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.progress import Watch
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.loop.fit import seeded
from sigmax.train.loop.quick_check import votes_of
from sigmax.train.methods.base import Batch, Method

if TYPE_CHECKING:
    import pandas as pd

LAST_EPOCH = 1_000_000  # past every warm-up
GRADIENT = 3  # with the seed and an input's index: where the method's own noise is sampled


@dataclass(frozen=True)
class GradientGroup:
    """The gradients of some inputs."""

    inputs: int
    mean_norm: float  # of |g(x)|_2; nan without inputs
    share: float  # of the sum of all norms


@dataclass(frozen=True, eq=False)
class GradientShares:
    """p_A and |g|_2 of every input, and what they are for easy and hard ones."""

    indices: NDArray[np.int64]  # where the inputs lie in the data set
    labels: NDArray[np.int64]
    p_a: NDArray[np.float64]
    norms: NDArray[np.float64]
    sigma: float  # of the votes
    samples: int  # votes an input
    method: Mapping[str, Any] = field(default_factory=dict)  # the method's plan

    @property
    def easy(self) -> GradientGroup:
        """Inputs with p_A above 1/2."""
        return self._group(self.p_a > 0.5)

    @property
    def hard(self) -> GradientGroup:
        """Inputs with p_A below 1/2."""
        return self._group(self.p_a < 0.5)

    @property
    def ratio(self) -> float:
        """Mean norm of the easy inputs over that of the hard ones; nan where a group is empty."""
        return self.easy.mean_norm / self.hard.mean_norm if self.hard.mean_norm else float("nan")

    def frame(self) -> "pd.DataFrame":
        """One row an input: index, label, p_a, kind (easy, hard or even) and norm."""
        import pandas as pd

        kind = np.select([self.p_a > 0.5, self.p_a < 0.5], ["easy", "hard"], "even")
        columns = {"index": self.indices, "label": self.labels, "p_a": self.p_a, "kind": kind, "norm": self.norms}
        return pd.DataFrame(columns)

    def _group(self, members: NDArray[np.bool_]) -> GradientGroup:
        count, total, everything = int(members.sum()), float(self.norms[members].sum()), float(self.norms.sum())
        return GradientGroup(count, total / count if count else float("nan"), total / everything if everything else 0.0)


def gradient_shares(
    model: nn.Module,
    method: Method,
    dataset: Dataset,
    *,
    sigma: float,
    samples: int = 100,
    indices: Sequence[int] | None = None,
    epoch: int = LAST_EPOCH,
    seed: int = 0,
    device: str | torch.device | None = None,
    on_input: Watch | None = None,  # inputs done, inputs in all
) -> GradientShares:
    """p_A and gradient norm of the inputs at `indices`, by default all, for any model and method.

    p_A is of `samples` votes under noise `sigma`, with the addresses certification would use. The gradient is of the
    loss that the method gives the input by itself at `epoch` (by default past all warm-ups), without augmentation and
    in eval
    mode: one step of the method an input, since methods attack, sort and sample in ways that cannot be batched without
    mixing gradients. An input's numbers depend on its index and the seed, not on the other inputs.
    """
    labels = dataset.needed_labels("measuring gradients by p_A")
    chosen = np.arange(len(dataset)) if indices is None else np.asarray(indices, dtype=np.int64)
    if chosen.size == 0:
        raise RequestError("gradient shares need at least one input, got none")
    parameters = [parameter for parameter in model.to(device).eval().parameters() if parameter.requires_grad]
    if not parameters:
        raise RequestError("no parameter of the model is trained (requires_grad), so there is no gradient to measure")
    smoothed = Smoothed(model, sigma=sigma, classes=len(dataset.classes))
    votes = votes_of(smoothed, dataset, chosen, n=samples, seed=seed)
    p_a = votes[np.arange(len(chosen)), labels[chosen]] / samples
    norms = np.empty(len(chosen))
    for done, index in enumerate(chosen.tolist()):
        norms[done] = _norm(model, method, dataset, index, parameters, epoch=epoch, seed=seed)
        if on_input is not None:
            on_input(done + 1, len(chosen))
    if not np.isfinite(norms).all():
        wrong = chosen[~np.isfinite(norms)]
        raise RunError(
            f"the gradient of {len(wrong)} inputs, first of number {wrong[0]}, is not finite; check the weights"
        )
    return GradientShares(chosen, labels[chosen], p_a, norms, float(sigma), samples, method.plan())


def _norm(
    model: nn.Module,
    method: Method,
    dataset: Dataset,
    index: int,
    parameters: Sequence[nn.Parameter],
    *,
    epoch: int,
    seed: int,
) -> float:
    device = parameters[0].device
    pixels = torch.from_numpy(dataset.pixels([index])).to(device)
    targets = torch.tensor(dataset.needed_labels("training")[[index]], device=device)
    with seeded(seed, index, GRADIENT, device=device) as generator, torch.enable_grad():
        batch = Batch(pixels, targets, torch.tensor([index], device=device), epoch, generator)
        loss = method.score(model, batch).loss
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
    return math.sqrt(sum(slope.double().square().sum().item() for slope in slopes if slope is not None))
