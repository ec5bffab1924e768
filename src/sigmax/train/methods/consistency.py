"""Consistency regularisation: noisy copies of an input are to be classified alike, and with confidence.

# x input; y its class; f_m softmax on noisy copy m; fbar their mean; H entropy

    loss(x) = mean_m -log f_m(y) + consistency * mean_m KL(fbar || f_m) + entropy * H(fbar)

The paper's lambda is `consistency` and its eta `entropy`; a step learns from the mean over its inputs.
Source: Jeong & Shin (2020), "Consistency Regularization for Certified Robustness of Smoothed Classifiers".
"""

import math
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from sigmax.config.validation import Positive, Weight, about, options
from sigmax.train.loop.noisy import NoiseName, by_copy, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.noise_attack import in_full
from sigmax.train.methods.registry import on_cifar10, register


@register(
    summary="Noisy copies of an image are to be classified alike, and with confidence.",
    presets=on_cifar10(consistency=(20.0, 10.0, 10.0), entropy=0.5, copies=2),
)
@options
class Consistency(Method):
    """The loss above. A step passes its inputs through the network once."""

    name: ClassVar[str] = "consistency"
    any_noise: ClassVar[bool] = True
    sigma: Annotated[Positive, about("noise in pixels")]
    consistency: Annotated[Weight, about("weight of the copies' disagreement")] = 10.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.5
    copies: Annotated[int, Field(ge=2, description="noisy copies of each image; one cannot disagree with itself")] = 2
    noise: Annotated[NoiseName, about("distribution of the noise")] = "gaussian"

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        noisy = noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator, self.noise)
        logits = by_copy(model(noisy), self.copies)
        return Score.of(self.losses(logits, batch.targets), logits, batch.targets)

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
