"""What the training loop asks of a training method, and what it hands it."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Examples:
    """Training inputs, on the device. `targets` is what the method learns: class ids, or soft labels."""

    pixels: Tensor  # (N, C, H, W) in [0, 1]
    targets: Tensor  # (N, ...)

    def __len__(self) -> int:
        return len(self.pixels)


@dataclass(frozen=True)
class Batch:
    """The examples of one step. All of a method's randomness comes from `generator`, or resuming is not exact."""

    pixels: Tensor  # (n, C, H, W) in [0, 1], augmented, without noise
    targets: Tensor  # (n, ...)
    indices: Tensor  # where the examples lie in the training set
    epoch: int  # from 0
    generator: torch.Generator  # on the device of the pixels


class Score(NamedTuple):
    """How the model did on a batch."""

    loss: Tensor  # to be minimised: a mean over the batch, with its graph
    accuracy: Tensor  # share of the noisy inputs that were classified right; for display


class Method(ABC):
    """A way to train: what is minimised on a batch.

    Subclasses are dataclasses whose fields are the method's hyper-parameters; they become part of the run's
    plan. A method that remembers something between batches (a sigma for each input, say) saves and restores
    it by `state_dict` and `load_state_dict`, so that a killed run goes on exactly.
    """

    name: ClassVar[str]

    @abstractmethod
    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The loss of the batch, and how many of its inputs the model got right."""

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:  # noqa: B027
        """Called before each epoch, the model in eval mode, for methods that look at the whole training set."""

    def plan(self) -> dict[str, Any]:
        """The method in words: its name and hyper-parameters."""
        fields: dict[str, Any] = asdict(self) if is_dataclass(self) else {}
        return {"name": self.name, **fields}

    def state_dict(self) -> dict[str, Any]:
        """What the method remembers: tensors and plain values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Take up what was remembered."""
