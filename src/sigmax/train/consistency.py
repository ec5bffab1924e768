"""Consistency regularisation: noisy copies of an input are to be classified alike, and with confidence.

# x input; y its class; f_m softmax on noisy copy m; fbar their mean; H entropy

    loss(x) = mean_m -log f_m(y) + consistency * mean_m KL(fbar || f_m) + entropy * H(fbar)

The paper's lambda is `consistency` and its eta `entropy`; a step learns from the mean over its inputs.
Source: Jeong & Shin (2020), "Consistency Regularization for Certified Robustness of Smoothed Classifiers".
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.method import Batch, Method, Score
from sigmax.train.noise_attack import in_full
from sigmax.train.noisy import by_copy, noisy_copies


@dataclass(frozen=True)
class Consistency(Method):
    """The loss above. A step passes its inputs through the network once."""

    name: ClassVar[str] = "consistency"
    sigma: float  # noise in pixels
    consistency: float = 10.0  # weight of the copies' disagreement
    entropy: float = 0.5  # weight of the entropy of their mean
    copies: int = 2  # noisy copies of each input

    def __post_init__(self) -> None:
        _check(0 < self.sigma < math.inf, "sigma", "positive and finite", self.sigma)
        for name in ("consistency", "entropy"):
            value = getattr(self, name)
            _check(0 <= value < math.inf, name, "at least 0 and finite", value)
        more = "a whole number of at least 2, for one copy cannot disagree with itself"
        _check(type(self.copies) is int and self.copies >= 2, "copies", more, self.copies)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        noisy = noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator)
        logits = by_copy(model(noisy), self.copies)
        right = logits.argmax(dim=2) == batch.targets
        return Score(self.losses(logits, batch.targets).mean(), right.float().mean())

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each input, (n,), from the logits of its copies, (m, n, K), and its class, (n,)."""
        log_f = in_full(logits).log_softmax(dim=2)
        return fit(log_f, targets) + unsteadiness(log_f, consistency=self.consistency, entropy=self.entropy)


def fit(log_f: Tensor, targets: Tensor) -> Tensor:
    """mean_m -log f_m(y) of each input, (n,), from log f_m, (m, n, K), and its class, (n,)."""
    return -log_f.mean(dim=0).gather(1, targets[:, None])[:, 0]


def unsteadiness(log_f: Tensor, *, consistency: float, entropy: float) -> Tensor:
    """consistency * mean_m KL(fbar || f_m) + entropy * H(fbar) of each input, (n,), from log f_m, (m, n, K)."""
    log_mean = log_of_mean(log_f)
    mean = log_mean.exp()
    disagreement = (mean * (log_mean - log_f)).sum(dim=2).mean(dim=0)
    uncertainty = -(mean * log_mean).sum(dim=1)
    return consistency * disagreement + entropy * uncertainty


def log_of_mean(log_f: Tensor) -> Tensor:
    """log fbar of each input, (n, K), from log f_m, (m, n, K): finite also where no copy is unsure."""
    return log_f.logsumexp(dim=0) - math.log(len(log_f))


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
