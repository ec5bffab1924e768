"""Routers trained for what is certified, rather than to name the best expert.

# x input; R_j(x) how far expert j certifies its true class, 0 where it does not; sigma the router's noise
# f_m softmax of the router on noisy copy m; q their mean; w(r) what a certificate at r is worth
# z_j = Phi^-1(q_j); under uniform noise 2 q_j, with sigma its scale

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

from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from sigmax.config.validation import Count, Numbers, Positive, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.noisy import NoiseName
from sigmax.train.methods.consistency import log_of_mean, unsteadiness
from sigmax.train.methods.noise_attack import in_full
from sigmax.train.router.loss import RouterLoss

LEAST = 1e-4  # of a vote share: ten thousand votes could show no less


class Stakes(NamedTuple):
    """What a router decides for each input, radius by radius."""

    good: Tensor  # (n, r, K) whether the route's expert certifies the radius
    worth: Tensor  # (n, r) w(r) where some routes reach the radius and others do not, else 0


@options
class Weighted(RouterLoss):
    """The loss `weighted` above."""

    name: ClassVar[str] = "router-weighted"
    sigma: Annotated[Positive, about("noise of the router's own votes, in pixels")]
    radii: Annotated[Numbers, about("the radii r, rising; none: spread from 0 to below the largest label")]
    weights: Annotated[Numbers, about("w(r) of each; none: all count the same")] = ()
    copies: Annotated[Count, about("noisy copies of each input")] = 2
    consistency: Annotated[Weight, about("weight of the copies' disagreement: certifies further, learns less")] = 2.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.0
    noise: Annotated[Literal["gaussian", "uniform"], about("distribution of the noise")] = "gaussian"

    def __post_init__(self) -> None:
        if not self.radii or self.radii[0] < 0 or list(self.radii) != sorted(set(self.radii)):
            raise RequestError(f"radii: expected one or more rising radii of at least 0, got {self.radii}")
        if self.weights and (len(self.weights) != len(self.radii) or min(self.weights) < 0 or sum(self.weights) == 0):
            raise RequestError(
                f"weights: expected a number of at least 0 for each of the {len(self.radii)} radii, and one above 0, "
                f"got {self.weights}"
            )

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


@options
class Certified(Weighted):
    """The loss `certified` above."""

    name: ClassVar[str] = "router-certified"
    temperature: Annotated[Positive, about("of the smooth step at the radius, in sigmas")] = 0.5
    hardness: Annotated[Positive, about("of the votes")] = 1.0
    fit: Annotated[Weight, about("weight of CE_r, which also teaches where the step is flat")] = 0.1

    def each(self, logits: Tensor, log_f: Tensor, good: Tensor) -> Tensor:
        """The smooth chance to miss each radius, and what `weighted` minimises."""
        asked = logits.new_tensor(self.radii)
        shares = log_of_mean((self.hardness * logits).log_softmax(dim=2)).exp()
        missed = ((asked - margins(shares, good, self.sigma, self.noise)) / (self.temperature * self.sigma)).sigmoid()
        return missed + self.fit * misses(log_f, good)


def misses(log_f: Tensor, good: Tensor) -> Tensor:
    """CE_r of each input and radius, (n, r), from log f_m and the good routes, (n, r, K); 0 where no route is good."""
    reached = _among(log_f[:, :, None], good).logsumexp(dim=3)
    return torch.where(good.any(dim=2), -reached, 0.0).mean(dim=0)


def margins(shares: Tensor, good: Tensor, sigma: float, noise: NoiseName = "gaussian") -> Tensor:
    """M_r of each input and radius, (n, r), from vote shares, (n, K), and the good routes, (n, r, K).

    Means nothing where all routes are good, or none is.
    """
    z = (2 * shares if noise == "uniform" else torch.special.ndtri(shares.clamp(LEAST, 1 - LEAST)))[:, None]
    return sigma / 2 * (_among(z, good).amax(dim=2) - _among(z, ~good).amax(dim=2))


def _among(values: Tensor, chosen: Tensor) -> Tensor:
    """The values of the chosen; one far below all others for the rest, finite so that gradients are."""
    return torch.where(chosen, values, -1e4)
