"""What the training loop asks of a training method, and what it hands it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.loop.noisy import NoiseName
from sigmax.train.loop.stored import Streamed, in_unit


@dataclass(frozen=True)
class Examples:
    """Training inputs, for the device. `targets` is what the method learns: class ids, or soft labels."""

    pixels: Tensor | Streamed  # (N, C, H, W), float32 in [0, 1] or uint8, a quarter of the memory
    targets: Tensor  # (N, ...)

    @property
    def device(self) -> torch.device:
        """Where the images are trained on."""
        return self.pixels.device

    def at(self, which: Tensor | slice) -> Tensor:
        """These images as float32 in [0, 1]."""
        return in_unit(self.pixels[which])

    def batches(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """The images of each part in turn, as `at` has them; image files are decoded ahead of their turn."""
        if isinstance(self.pixels, Streamed):
            yield from map(in_unit, self.pixels.batches(parts))
        else:
            yield from map(self.at, parts)

    def take(self, which: Tensor) -> "Examples":
        """Some of the examples."""
        where = which.to(self.device)
        pixels = self.pixels.take(where) if isinstance(self.pixels, Streamed) else self.pixels[where]
        return Examples(pixels, self.targets[where])

    def __len__(self) -> int:
        return len(self.pixels)


@dataclass(frozen=True)
class Batch:
    """The examples of one step. All of a method's randomness comes from `generator`, by the functions of `noisy`."""

    pixels: Tensor  # (n, C, H, W) in [0, 1], augmented, without noise
    targets: Tensor  # (n, ...)
    indices: Tensor  # where the examples lie in the training set
    epoch: int  # from 0
    generator: torch.Generator  # on the device of the pixels
    sigma: Tensor | None = None  # (n,) noise of each image, in pixels; None: the method's own for all of them


class Score(NamedTuple):
    """How the model did on a batch."""

    loss: Tensor  # to be minimised: a mean over the batch's images, with its graph
    accuracy: Tensor  # share of the noisy inputs that were classified right; for display

    @classmethod
    def of(cls, losses: Tensor, logits: Tensor, targets: Tensor) -> "Score":
        """The mean of the losses, and how many of the logits, (..., n, K), are largest at their target, (n,)."""
        return cls(losses.mean(), (logits.argmax(dim=-1) == targets).float().mean())


class Method(ABC):
    """A way to train: what is minimised on a batch.

    Subclasses are dataclasses (`sigmax.config.options`) whose fields, the hyper-parameters, become part of the run's
    plan. What is remembered between batches is saved and restored, so that a killed run goes on exactly.
    """

    name: ClassVar[str]
    any_noise: ClassVar[bool] = False  # whether it learns under a noise of its own for each input (`Batch.sigma`)
    sigma: float  # noise in pixels, of methods with one noise for all images
    copies: int = 1  # noisy copies of each image in a step
    noise: NoiseName = "gaussian"  # its distribution; a method whose mathematics is Gaussian has no other

    @abstractmethod
    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The loss of the batch, and how many of its inputs the model got right."""

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:  # noqa: B027
        """Called before each epoch, the model in eval mode, for methods that look at the whole training set."""

    def images(self, batch: int) -> int:
        """How many images a step takes so that its forward pass has `batch` inputs: batch / copies."""
        if batch % self.copies:
            raise RequestError(
                f"a step of batch={batch} inputs has batch / copies images, and copies={self.copies} does not "
                f"divide it; choose a batch that is a multiple of {self.copies}"
            )
        return batch // self.copies

    def noise_of(self, batch: Batch) -> float | Tensor:
        """The noise of the batch's images, in pixels: one for each where they have their own, else the method's."""
        return self.sigma if batch.sigma is None else batch.sigma

    def order(self, count: int, epoch: int, generator: torch.Generator) -> Tensor:
        """Which of the `count` examples the epoch trains on, in which order: indices, on the generator's device."""
        return torch.randperm(count, device=generator.device, generator=generator)

    def per_example(self) -> Sequence[Tensor]:
        """What is remembered of each example: tensors (N, ...), whose rows processes exchange after each epoch."""
        return ()

    def plan(self) -> dict[str, Any]:
        """The method in words: its name and hyper-parameters."""
        own: dict[str, Any] = asdict(self) if is_dataclass(self) else {}
        if own.get("noise") == "gaussian":  # what every plan meant before there was another
            del own["noise"]
        return {"name": self.name, **own}

    def state_dict(self) -> dict[str, Any]:
        """What the method remembers: tensors and plain values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Take up what was remembered."""
