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
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError
from sigmax.train.consistency import unsteadiness
from sigmax.train.gaussian import add_noise
from sigmax.train.method import Batch, Method, Score

LabelsKind = Literal["soft", "hard"]
Strength = Literal["weak", "strong", "none"]


class RouterOptions(TypedDict, total=False):
    """The hyper-parameters of `Router` that do not follow from the data, as keywords."""

    copies: int
    labels_kind: LabelsKind
    sharpness: float
    consistency: float
    entropy: float
    balance: bool
    strength: Strength


@dataclass(frozen=True)
class Router(Method):
    """The loss above. Targets are radii, (n, K), the experts from least noise to most.

    The defaults suit small data, whose radii are small: see `router_preset` for the paper's.
    """

    name: ClassVar[str] = "router"
    sigma: float  # noise of the router's own votes, in pixels
    shares: tuple[float, ...]  # q_i
    scale: float  # C
    copies: int = 2  # noisy copies of each input
    labels_kind: LabelsKind = "soft"
    sharpness: float = 10.0  # of soft labels; 1 is the paper's, more tells close radii apart
    consistency: float = 20.0  # weight of the copies' disagreement; more certifies further and learns less
    entropy: float = 0.5  # weight of the entropy of their mean
    balance: bool = True  # weigh inputs so that every route counts the same in all
    strength: Strength = "strong"

    def __post_init__(self) -> None:
        _check(0 < self.sigma < math.inf, "sigma", "positive and finite", self.sigma)
        _check(
            len(self.shares) >= 2 and min(self.shares) >= 0 and math.isclose(sum(self.shares), 1.0),
            "shares",
            "two or more shares that add up to 1",
            self.shares,
        )
        _check(0 < self.scale < math.inf, "scale", "positive and finite", self.scale)
        whole = isinstance(self.copies, int) and not isinstance(self.copies, bool)
        _check(whole and self.copies >= 1, "copies", "a whole number of at least 1", self.copies)
        _check(0 < self.sharpness < math.inf, "sharpness", "positive and finite", self.sharpness)
        for name in ("consistency", "entropy"):
            value = getattr(self, name)
            _check(0 <= value < math.inf, name, "at least 0 and finite", value)
        for name, kind in (("labels_kind", LabelsKind), ("strength", Strength)):
            value = getattr(self, name)
            _check(value in get_args(kind), name, f"one of {', '.join(get_args(kind))}", value)
        _check(isinstance(self.balance, bool), "balance", "True or False", self.balance)

    def images(self, batch: int) -> int:
        """As many as `batch`: the paper counts images, not their copies."""
        return batch

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a copy that takes the best route."""
        noisy = [add_noise(batch.pixels, self.sigma, batch.generator) for _ in range(self.copies)]
        logits = model(torch.cat(noisy)).unflatten(0, (self.copies, -1))
        right = logits.argmax(dim=2) == batch.targets.argmax(dim=1)
        return Score(self.losses(logits, batch.targets).mean(), right.float().mean())

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


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
