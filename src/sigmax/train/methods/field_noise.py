"""Training under the noise of a field: each image gets the noise that the field will give it when it is certified.

# x training input; sigma(x) the field's noise there, computed once; the inner method trains on x with that noise

An input of the training set is among its own nearest neighbours, so that a nearest-neighbour field gives it a bit
less noise than a new one. Augmented copies keep the noise of their original.
Source: Sukenik et al. (2022), "Intriguing properties of input-dependent randomized smoothing".
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sigmax.config.validation import about, options
from sigmax.schemes.fields import SigmaField
from sigmax.train.methods.base import Examples, Method
from sigmax.train.methods.own_noise import OwnNoise

AT_ONCE = 1024  # inputs that the field is asked about together


@options(frozen=False)
class FieldNoise(OwnNoise):
    """The method `inner`, with the noise of `source` at each input in place of its own."""

    name: ClassVar[str] = "field-noise"
    inner: Annotated[Method, about("the method")]
    source: Annotated[SigmaField, about("the field, such as NearestNeighbourSigma(...)")]
    sigmas: Tensor = field(init=False, repr=False, compare=False)  # (N,) in pixels

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """The field is asked once about every input."""
        if len(self.sigmas) != len(examples):
            starts = range(0, len(examples), AT_ONCE)
            parts = [self.source.sigmas(examples.at(slice(i, i + AT_ONCE))) for i in starts]
            self.sigmas = torch.from_numpy(np.concatenate(parts)).float()
        super().begin_epoch(model, examples, epoch)

    def per_example(self) -> Sequence[Tensor]:
        """What the inner method remembers: the noise does not change."""
        return self.inner.per_example()

    def plan(self) -> dict[str, Any]:
        """The inner method with its own plan, and the field."""
        return {"name": self.name, "field": self.source.describe(), "inner": self.inner.plan()}
