"""What a router minimises: the loss of the Dual smoothing paper's variance estimator.

# x input; R_i(x) how far expert i certifies it; f_m softmax on noisy copy m; fbar their mean
# q_i share of the training inputs that expert i is best for; C the largest radius; best(x) = argmax_i R_i(x)

    loss(x) = w_e(x) * (CE(x) + w_r(x) * (consistency * mean_m KL(fbar || f_m) + entropy * H(fbar)))

CE is the mean over the copies of the cross-entropy to the label: softmax_i(sharpness * R_i(x)) or one-hot best(x).
w_e(x) = 1 / q_best(x), or 1 without balance. w_r(x) = R_j(x) / C, where j is of the routes that the copies take the
one with least noise (weak) or most (strong); or 1.
Source: Dual randomized smoothing, Sec. 5.2.1; the consistency part is Jeong & Shin (2020).
"""

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sigmax.config.validation import Count, Numbers, Positive, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.noisy import by_copy, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.consistency import unsteadiness

LabelsKind = Literal["soft", "hard"]
Strength = Literal["weak", "strong", "none"]


class RouterLoss(Method):
    """A loss of a router on noisy copies of each input. Targets are radii, (n, K), the experts from least noise on."""

    @abstractmethod
    def losses(self, logits: Tensor, radii: Tensor) -> Tensor:
        """The loss of each input, (n,), from the logits of its copies, (m, n, K), and its radii, (n, K)."""

    def images(self, batch: int) -> int:
        """As many as `batch`: the paper counts images, not their copies."""
        return batch

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a copy that takes the best route."""
        noisy = noisy_copies(batch.pixels, self.sigma, self.copies, batch.generator, self.noise)
        logits = by_copy(model(noisy), self.copies)
        return Score.of(self.losses(logits, batch.targets), logits, batch.targets.argmax(dim=1))


@options
class Router(RouterLoss):
    """The loss above. The defaults suit small data, whose radii are small: see `router_preset` for the paper's."""

    name: ClassVar[str] = "router"
    sigma: Annotated[Positive, about("noise of the router's own votes, in pixels")]
    shares: Annotated[Numbers, about("q_i")]
    scale: Annotated[Positive, about("C")]
    copies: Annotated[Count, about("noisy copies of each input")] = 2
    labels_kind: Annotated[LabelsKind, about("softmax of the radii, or the best expert alone")] = "soft"
    sharpness: Annotated[Positive, about("of soft labels; 1 is the paper's, more separates close radii")] = 10.0
    consistency: Annotated[Weight, about("weight of the copies' disagreement: certifies further, learns less")] = 20.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.5
    balance: Annotated[bool, about("weigh inputs so that every route counts the same in all")] = True
    strength: Annotated[Strength, about("which radius weighs the copies' disagreement")] = "strong"
    noise: Annotated[Literal["gaussian", "uniform"], about("distribution of the noise")] = "gaussian"

    def __post_init__(self) -> None:
        if len(self.shares) < 2 or min(self.shares) < 0 or not math.isclose(sum(self.shares), 1.0):
            raise RequestError(f"shares: expected two or more shares that add up to 1, got {self.shares}")

    def losses(self, logits: Tensor, radii: Tensor) -> Tensor:
        """The loss of each input, (n,), from the logits of its copies, (m, n, K), and its radii, (n, K)."""
        radii = radii.to(logits.dtype)
        log_f = logits.log_softmax(dim=2)
        fit = -(self.targets(radii) * log_f).sum(dim=2).mean(dim=0)
        steady = unsteadiness(log_f, consistency=self.consistency, entropy=self.entropy)
        return self._balancing(radii) * (fit + self._strength(logits, radii) * steady)

    def targets(self, radii: Tensor) -> Tensor:
        """What the router should answer, (n, K)."""
        if self.labels_kind == "soft":
            return (self.sharpness * radii).softmax(dim=1)
        return functional.one_hot(radii.argmax(dim=1), len(self.shares)).to(radii.dtype)

    def _balancing(self, radii: Tensor) -> Tensor:
        """w_e of each input."""
        if not self.balance:
            return radii.new_ones(len(radii))
        return 1 / radii.new_tensor(self.shares)[radii.argmax(dim=1)]

    def _strength(self, logits: Tensor, radii: Tensor) -> Tensor:
        """w_r of each input. Which routes are taken is not learned through it."""
        if self.strength == "none":
            return radii.new_ones(len(radii))
        taken = logits.argmax(dim=2)
        route = taken.amin(dim=0) if self.strength == "weak" else taken.amax(dim=0)
        return radii.gather(1, route[:, None])[:, 0] / self.scale


def shares_of(radii: NDArray[np.floating]) -> tuple[float, ...]:
    """q_i: for which share of the inputs each expert reaches furthest; of equals the one with less noise."""
    counts = np.bincount(radii.argmax(axis=1), minlength=radii.shape[1])
    return tuple((counts / len(radii)).tolist())
