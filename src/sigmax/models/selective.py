"""A selective model: it votes for a class only where it is confident, and to defer elsewhere.

# p_c the model's softmax on a noisy image; c the confidence asked for

    outputs: log p_c for each class, and log c as the last one, so that the vote is to defer where every p_c < c

A network that is confident under its own noise will certify far; what it is not confident of is better left to a
network under less noise. `sigmax calibrate` chooses the confidence on images that no network was trained on.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.adapters.exported import called
from sigmax.numbers import is_number


class Selective(nn.Module):
    """Logits (n, K + 1) from a model with logits (n, K): the last one wins where the model is not confident."""

    defers = True

    def __init__(self, model: Callable[..., Tensor], confidence: float) -> None:
        super().__init__()
        self.model = model
        self.confidence = check_confidence(confidence)

    def extra_repr(self) -> str:
        """The confidence, which no weight shows: a module of the user's own around this one is known by its print."""
        return f"confidence={self.confidence!r}"

    @property
    def takes_sigma(self) -> bool:
        """As of the model inside."""
        return bool(getattr(self.model, "takes_sigma", False))

    @property
    def sigma_may_be_tensor(self) -> bool:
        """As of the model inside."""
        return bool(getattr(self.model, "sigma_may_be_tensor", False))

    def forward(self, images: Tensor, *sigma: float | Tensor) -> Tensor:
        """Log-probabilities of the classes, and the logarithm of the confidence asked for."""
        logits = self.model(images, *sigma)
        if not isinstance(logits, Tensor) or logits.ndim != 2 or not logits.is_floating_point():
            raise RequestError("a selective model needs logits of shape (batch, classes) from the model inside")
        logits = logits.float()
        shares = (logits - logits.logsumexp(dim=1, keepdim=True)).masked_fill(logits == math.inf, 0.0)
        return torch.cat([shares, torch.full_like(shares[:, :1], math.log(self.confidence))], dim=1)


def selective(model: Callable[..., Tensor], *, confidence: float) -> Selective:
    """The model (batch -> logits), voting to defer where its largest softmax probability is below `confidence`."""
    model = called(model, "logits")
    if bool(getattr(model, "defers", False)):
        raise RequestError("this model defers already; give the classifier inside it, with another confidence")
    return Selective(model, confidence)


def check_confidence(confidence: object) -> float:
    """A softmax probability: above 0 and below 1."""
    if not is_number(confidence) or not 0 < confidence < 1:  # type: ignore[operator]  # a number, as was checked
        raise RequestError(f"confidence must be a softmax probability between 0 and 1, such as 0.6; got {confidence!r}")
    return float(confidence)  # type: ignore[arg-type]
