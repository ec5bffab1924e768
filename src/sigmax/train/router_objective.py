"""Routers trained for what is certified, rather than to name the best expert.

# x input; R_j(x) how far expert j certifies its true class, 0 where it does not; sigma the router's noise
# f_m softmax of the router on noisy copy m; q their mean; z_j = Phi^-1(q_j); w(r) what a certificate at r is worth

With D_j = sigma/2 * (max_i z_i - z_j) the radius of the consensus rule (`radius.routed`) for the true class is

    R(x) = min_j max(D_j, R_j),

since an expert with R_j = 0 ends it at D_j. So it reaches r > 0 where the routes that do not (bad: R_j < r) stay
behind those that do (good: R_j >= r) by enough:

    R(x) >= r   if and only if   M_r := sigma/2 * (max over good of z - max over bad of z) >= r.

If all routes reach r, or none, no router changes that: r is at stake for x only between its least and largest R_j.

    loss(x) = sum over r at stake of w(r) * (l_r + unsteady),   with

    weighted    l_r = CE_r := mean_m -log(sum over good of f_m)
    certified   l_r = S((r - M_r) / (temperature * sigma)) + fit * CE_r

where S is the logistic function and unsteady = consistency * mean_m KL(q || f_m) + entropy * H(q). Of two routes
`weighted` is the cross-entropy to the better expert, weighted by what is at stake between the two.
The votes that a certificate counts are hard; `hardness` times the logits brings the softmax near to them.
Source: the rule's theorem is our own (docs/dual.md); a smooth radius as objective is due to Zhai et al. (2020), and
the unsteadiness to Jeong & Shin (2020).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.train.consistency import log_of_mean, unsteadiness
from sigmax.train.method import Batch, Method, Score
from sigmax.train.noise_attack import in_full
from sigmax.train.noisy import by_copy, noisy_copies

LEAST = 1e-4  # of a vote share: ten thousand votes could show no less


class Stakes(NamedTuple):
    """What a router decides for each input, radius by radius."""

    good: Tensor  # (n, r, K) whether the route's expert certifies the radius
    worth: Tensor  # (n, r) w(r) where some routes reach the radius and others do not, else 0


@dataclass(frozen=True)
class Weighted(Method):
    """The loss `weighted` above. Targets are radii, (n, K)."""

    name: ClassVar[str] = "router-weighted"
    sigma: float  # noise of the router's own votes, in pixels
    radii: tuple[float, ...]  # the radii r, rising
    weights: tuple[float, ...] = ()  # w(r) of each; none: all count the same
    copies: int = 2  # noisy copies of each input
    consistency: float = 2.0  # weight of the copies' disagreement; more certifies further and learns less
    entropy: float = 0.0  # weight of the entropy of their mean

    def __post_init__(self) -> None:
        _check(0 < self.sigma < math.inf, "sigma", "positive and finite", self.sigma)
        rising = list(self.radii) == sorted(set(self.radii))
        good = bool(self.radii) and rising and all(0 <= r < math.inf for r in self.radii)
        _check(good, "radii", "one or more rising radii of at least 0", self.radii)
        fits = len(self.weights) in (0, len(self.radii)) and all(0 <= w < math.inf for w in self.weights)
        told = f"a number of at least 0 for each of the {len(self.radii)} radii, and one above 0"
        _check(fits and (not self.weights or sum(self.weights) > 0), "weights", told, self.weights)
        whole = isinstance(self.copies, int) and not isinstance(self.copies, bool)
        _check(whole and self.copies >= 1, "copies", "a whole number of at least 1", self.copies)
        for name in ("consistency", "entropy"):
            value = getattr(self, name)
            _check(0 <= value < math.inf, name, "at least 0 and finite", value)

    def images(self, batch: int) -> int:
        """As many as `batch`: images are counted, not their copies."""
        return batch

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a copy that takes the best route."""
        noisy = noisy_copies(batch.pixels, self.sigma, self.copies, batch.generator)
        logits = by_copy(model(noisy), self.copies)
        right = logits.argmax(dim=2) == batch.targets.argmax(dim=1)
        return Score(self.losses(logits, batch.targets).mean(), right.float().mean())

    def losses(self, logits: Tensor, radii: Tensor) -> Tensor:
        """The loss of each input, (n,), from the logits of its copies, (m, n, K), and its radii, (n, K)."""
        logits = in_full(logits)
        stakes, log_f = self.stakes(radii), logits.log_softmax(dim=2)
        steady = unsteadiness(log_f, consistency=self.consistency, entropy=self.entropy)
        return (stakes.worth * (self.each(logits, log_f, stakes.good) + steady[:, None])).sum(dim=1)

    def each(self, logits: Tensor, log_f: Tensor, good: Tensor) -> Tensor:
        """What is minimised for each input and radius, (n, r), unsteadiness aside."""
        return misses(log_f, good)

    def stakes(self, radii: Tensor) -> Stakes:
        """What is at stake for inputs of these radii, (n, K); a radius of 0 stands for no certificate."""
        asked = radii.new_tensor(self.radii)
        worth = radii.new_tensor(self.weights or [1.0] * len(self.radii))
        good = (radii[:, None] >= asked[:, None]) & (radii > 0)[:, None]
        open_ = good.any(dim=2) & ~good.all(dim=2)
        return Stakes(good, open_ * (worth / worth.sum()))


@dataclass(frozen=True)
class Certified(Weighted):
    """The loss `certified` above. Targets are radii, (n, K)."""

    name: ClassVar[str] = "router-certified"
    temperature: float = 0.5  # of the smooth step at the radius, in sigmas: how far misses are still learned from
    hardness: float = 1.0  # of the votes
    fit: float = 0.1  # weight of CE_r, which also teaches where the step is flat

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "hardness"):
            value = getattr(self, name)
            _check(0 < value < math.inf, name, "positive and finite", value)
        _check(0 <= self.fit < math.inf, "fit", "at least 0 and finite", self.fit)

    def each(self, logits: Tensor, log_f: Tensor, good: Tensor) -> Tensor:
        """The smooth chance to miss each radius, and what `weighted` minimises."""
        asked = logits.new_tensor(self.radii)
        shares = log_of_mean((self.hardness * logits).log_softmax(dim=2)).exp()
        missed = ((asked - margins(shares, good, self.sigma)) / (self.temperature * self.sigma)).sigmoid()
        return missed + self.fit * misses(log_f, good)


def misses(log_f: Tensor, good: Tensor) -> Tensor:
    """CE_r of each input and radius, (n, r), from log f_m, (m, n, K), and the good routes, (n, r, K).

    0 where no route is good: nothing is at stake there.
    """
    reached = _among(log_f[:, :, None], good).logsumexp(dim=3)
    return torch.where(good.any(dim=2), -reached, 0.0).mean(dim=0)


def margins(shares: Tensor, good: Tensor, sigma: float) -> Tensor:
    """M_r of each input and radius, (n, r), from vote shares, (n, K), and the good routes, (n, r, K).

    Means nothing where all routes are good, or none is.
    """
    z = torch.special.ndtri(shares.clamp(LEAST, 1 - LEAST))[:, None]
    return sigma / 2 * (_among(z, good).amax(dim=2) - _among(z, ~good).amax(dim=2))


def _among(values: Tensor, chosen: Tensor) -> Tensor:
    """The values of the chosen; one far below all others for the rest, finite so that gradients are."""
    return torch.where(chosen, values, -1e4)


def _check(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise RequestError(f"{name} must be {expected}, got {value!r}")
