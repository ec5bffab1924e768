"""Training under the noise of a field: each image gets the noise that the field will give it when it is certified.

# x training input; sigma(x) the field's noise there, computed once; the inner method trains on x with that noise

An input of the training set is among its own nearest neighbours, so that a nearest-neighbour field gives it a bit
less noise than a new one. Augmented copies keep the noise of their original.
Source: Sukenik et al. (2022), "Intriguing properties of input-dependent randomized smoothing".
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sigmax.certify.fields import SigmaField
from sigmax.errors import RequestError
from sigmax.train.data_dependent import COMPOSES_WITH
from sigmax.train.method import Batch, Examples, Method, Score

AT_ONCE = 1024  # inputs that the field is asked about together


@dataclass
class FieldNoise(Method):
    """The method `inner`, with the noise of `source` at each input in place of its own."""

    name: ClassVar[str] = "field-noise"
    inner: Method
    source: SigmaField
    sigmas: Tensor = field(init=False, repr=False, compare=False)  # (N,) in pixels

    def __post_init__(self) -> None:
        if not isinstance(self.inner, COMPOSES_WITH):
            known = ", ".join(method.name for method in COMPOSES_WITH)
            raise RequestError(
                f"a field's noise is for methods that learn under any noise of an input ({known}), and "
                f"{getattr(self.inner, 'name', self.inner)!r} does not; choose one of those"
            )
        if not isinstance(self.source, SigmaField):
            raise RequestError(f"expected a field such as NearestNeighbourSigma(...), got {self.source!r:.80}")
        self.sigma, self.copies = self.inner.sigma, self.inner.copies
        self.sigmas = torch.empty(0)

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """The field is asked once about every input."""
        if len(self.sigmas) != len(examples):
            starts = range(0, len(examples), AT_ONCE)
            parts = [self.source.sigmas(examples.pixels[i : i + AT_ONCE]) for i in starts]
            self.sigmas = torch.from_numpy(np.concatenate(parts)).to(examples.pixels.dtype)
        self.sigmas = self.sigmas.to(examples.pixels.device)
        self.inner.begin_epoch(model, examples, epoch)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The inner method's, under the field's noise."""
        return self.inner.score(model, replace(batch, sigma=self.sigmas[batch.indices]))

    def images(self, batch: int) -> int:
        """As the inner method has it."""
        return self.inner.images(batch)

    def order(self, count: int, epoch: int, generator: torch.Generator) -> Tensor:
        """As the inner method has it."""
        return self.inner.order(count, epoch, generator)

    def per_example(self) -> tuple[Tensor, ...]:
        """What the inner method remembers: the noise does not change."""
        return tuple(self.inner.per_example())

    def plan(self) -> dict[str, Any]:
        """The inner method with its own plan, and the field."""
        return {"name": self.name, "field": self.source.describe(), "inner": self.inner.plan()}

    def state_dict(self) -> dict[str, Any]:
        """What the inner method remembers, and the noise: a large set takes minutes to measure."""
        return {"inner": self.inner.state_dict(), "sigmas": self.sigmas}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what was remembered."""
        self.inner.load_state_dict(state["inner"])
        self.sigmas = state.get("sigmas", self.sigmas)  # runs begun before it was kept have none
