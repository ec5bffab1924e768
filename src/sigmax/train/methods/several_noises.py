"""One network for several noises: cross-entropy under the noise of each input's route, or of a random one.

# x input; y its class; sigma(x) the noise of its route; f softmax

    Routed             loss(x) = -log f(x + sigma(x) noise)_y
    RoutedConsistency  the loss of `consistency` on copies x + sigma(x) noise
    Mixed              the loss of Routed, the noise sampled again in every step
    MixedConsistency   the loss of RoutedConsistency, likewise

Source: Dual randomized smoothing (Sun et al. 2026), Sec. 5.2.2, for Routed. The paper has no consistency there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from sigmax.config.validation import Numbers, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.denoised import answers
from sigmax.train.loop.noisy import NoiseName, by_copy, noisy_copies, uniform
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.consistency import fit, unsteadiness
from sigmax.train.methods.noise_attack import in_full


@options
class Routed(Method):
    """Cross-entropy on inputs with the noise of their route. Targets are (class, route), (n, 2)."""

    name: ClassVar[str] = "routed"
    sigmas: Annotated[Numbers, about("noise of each route, in pixels")]

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        classes, routes = batch.targets.unbind(dim=1)
        sigma = batch.pixels.new_tensor(self.sigmas)[routes]
        return scored(model, noisy_copies(batch.pixels, sigma, 1, batch.generator), sigma, classes)


@options
class RoutedConsistency(Routed):
    """The loss of `Consistency` on inputs with the noise of their route, two noisy copies of each."""

    name: ClassVar[str] = "routed-consistency"
    consistency: Annotated[Weight, about("weight of the copies' disagreement")] = 10.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.5
    copies: int = field(default=2, init=False)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        classes, routes = batch.targets.unbind(dim=1)
        sigma = batch.pixels.new_tensor(self.sigmas)[routes]
        noisy = noisy_copies(batch.pixels, sigma, self.copies, batch.generator)
        return agreed(model, noisy, sigma, classes, consistency=self.consistency, entropy=self.entropy)


@options
class Mixed(Method):
    """Cross-entropy on inputs with noise of a random one of several sigmas: one network for all of them."""

    name: ClassVar[str] = "mixed"
    sigmas: Annotated[Numbers, about("the noises, in pixels")]
    noise: Annotated[NoiseName, about("distribution of the noise")] = "gaussian"

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean cross-entropy of one noisy copy of each input."""
        sigma = self.sampled(batch)
        noisy = noisy_copies(batch.pixels, sigma, 1, batch.generator, self.noise)
        return scored(model, noisy, sigma, batch.targets)

    def sampled(self, batch: Batch) -> Tensor:
        """One of the noises for each input of the batch, all alike likely."""
        which = (uniform(batch.pixels, batch.generator) * len(self.sigmas)).long()
        return batch.pixels.new_tensor(self.sigmas)[which]


@options
class MixedConsistency(Mixed):
    """The loss of `Consistency` on inputs with noise of a random one of several sigmas, two noisy copies of each."""

    name: ClassVar[str] = "mixed-consistency"
    consistency: Annotated[Weight, about("weight of the copies' disagreement")] = 10.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.5
    copies: int = field(default=2, init=False)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        sigma = self.sampled(batch)
        noisy = noisy_copies(batch.pixels, sigma, self.copies, batch.generator, self.noise)
        return agreed(model, noisy, sigma, batch.targets, consistency=self.consistency, entropy=self.entropy)


def mixed(method: str, sigmas: Sequence[float], hyper: Mapping[str, Any], noise: NoiseName = "gaussian") -> Mixed:
    """What trains one network under all the sigmas by the loss of a method for one of them."""
    kinds: dict[str, type[Mixed]] = {"gaussian": Mixed, "consistency": MixedConsistency}
    kind = kinds.get(method)
    if kind is None:
        raise RequestError(f"one network for several noises is trained by {' or '.join(kinds)}; got {method!r}")
    unknown = sorted(set(hyper) - ({"consistency", "entropy"} if kind is MixedConsistency else set()))
    if unknown:
        raise RequestError(f"{method} has no {', '.join(unknown)} where one network is for several noises")
    return kind(tuple(sigmas), noise=noise, **hyper)


def agreed(
    model: nn.Module, noisy: Tensor, sigma: Tensor, classes: Tensor, *, consistency: float, entropy: float
) -> Score:
    """The loss of `Consistency` over copies of inputs with a noise each."""
    copies = len(noisy) // len(sigma)
    log_f = in_full(by_copy(answers(model, noisy, sigma.repeat(copies)), copies)).log_softmax(dim=2)
    return Score.of(fit(log_f, classes) + unsteadiness(log_f, consistency=consistency, entropy=entropy), log_f, classes)


def scored(model: nn.Module, noisy: Tensor, sigma: Tensor, classes: Tensor) -> Score:
    """Cross-entropy and the share of right answers."""
    logits = answers(model, noisy, sigma)
    return Score.of(functional.cross_entropy(logits, classes), logits, classes)
