"""Noise chosen for each input by itself: the sigma at which its soft radius is largest, as far as a search finds.

# x input; e_1 .. e_n standard noises; p(sigma) mean of softmax(f(x + sigma e_j)); p_A >= p_B its largest two
# R(sigma) = sigma / 2 * (Phi^-1(p_A) - Phi^-1(p_B)), the p kept within [0.02, 0.98]

"ascent": sigma <- sigma + step * dR/dsigma, `steps` times with fresh noises, kept within the range; the derivative
passes through the network. "signs": from several starts sigma moves by the sign of R's difference, in shrinking
steps; needs no derivative. "grid": the best of `steps` noises, evenly spaced in log sigma. Noises have addresses of
their own (stage "noise search"), so the choice is independent of the votes and cannot make a bound wrong.
Source: Alfarra et al. (2022), "Data dependent randomized smoothing", Algorithm 1; [0.02, 0.98]: App. A. The authors
climb 900 steps of 1e-4 with n = 1 on CIFAR-10, and have no range.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sigmax.engine.voter import Voter, voting
from sigmax.errors import RequestError
from sigmax.noise.addressed import Address, BlockSource, empty
from sigmax.noise.gaussian import SAMPLER
from sigmax.rules.memorized import MemorizedRule

STAGE = "noise search"
LEAST, MOST = 0.02, 0.98  # beyond, Phi^-1 is so steep that a few noises say nothing of it
STARTS = 4  # of the search by signs, evenly spaced in log sigma
PROBE = 0.05  # how far left and right of log sigma that search looks


class Inputs(NamedTuple):
    """Some inputs and where their noise comes from."""

    x: Tensor  # (n, ...) float32 on the CPU
    ids: Sequence[int]
    seed: int

    def noises(self, index: int, copies: int) -> Tensor:
        """The noises of one step, (n, copies, ...); the same for the same address."""
        out, source = empty((len(self.x), copies, *self.x.shape[1:])), BlockSource(SAMPLER)
        for row, input_id in zip(out, self.ids, strict=True):
            source.fill(row.numpy(), Address(self.seed, input_id, STAGE, index))
        return out


def best_sigmas(rule: MemorizedRule, voter: Voter, x: Tensor, ids: Sequence[int], seed: int) -> list[float]:
    """The noise found for each input, within the rule's range."""
    find = {"ascent": ascent, "signs": signs, "grid": grid}[rule.search]
    # A network that takes sigma takes one at a time.
    size = 1 if voter.takes_sigma else max(1, voter.batch // rule.noises)
    found: list[float] = []
    for first in range(0, len(x), size):
        some = Inputs(x[first : first + size], ids[first : first + size], seed)
        with voting([voter]):
            sigmas = find(rule, voter, some).double().cpu().clamp(rule.least, rule.most)
        found += [float(sigma) for sigma in sigmas]
    return found


def _on(voter: Voter) -> dict[str, Any]:
    """Where and as what a search computes, whatever torch's defaults were set to."""
    return {"device": voter.device, "dtype": torch.float32}


def ascent(rule: MemorizedRule, voter: Voter, inputs: Inputs) -> Tensor:
    """Gradient steps, all inputs together."""
    sigma = torch.full((len(inputs.x),), rule.sigma0, **_on(voter))
    for step in range(rule.steps):
        noise = inputs.noises(step, rule.noises).to(voter.device)
        with torch.enable_grad():
            moving = sigma.detach().requires_grad_()
            shares = soft_shares(voter, inputs.x.to(voter.device), moving, noise)
            if not shares.requires_grad:
                raise RequestError(
                    "search='ascent' needs the derivative of the model's scores, and this model has none; "
                    "use search='signs' or 'grid'"
                )
            (slope,) = torch.autograd.grad(soft_radii(shares, moving).sum(), moving)
        sigma = (sigma + rule.step * torch.nan_to_num(slope)).clamp(rule.least, rule.most)
    return sigma


def signs(rule: MemorizedRule, voter: Voter, inputs: Inputs) -> Tensor:
    """From each start `steps` moves by the sign of the difference, the last the smallest; the best end wins."""
    low, high = (torch.tensor(end, **_on(voter)).log() for end in (rule.least, rule.most))
    noise = inputs.noises(0, rule.noises).to(voter.device)
    ends = []
    for start in torch.linspace(0.0, 1.0, STARTS + 2, dtype=torch.float32)[1:-1].tolist():
        place = (low + start * (high - low)).expand(len(inputs.x))
        for step in range(rule.steps):
            shrinking = (high - low) / (STARTS + 1) * (1 - step / rule.steps)
            right, left = (_radii(voter, inputs, (place + side * PROBE).exp(), noise) for side in (1, -1))
            place = (place + shrinking / 2 * torch.sign(right - left)).clamp(low, high)
        ends.append(place.exp())
    return _best(voter, inputs, torch.stack(ends), noise)


def grid(rule: MemorizedRule, voter: Voter, inputs: Inputs) -> Tensor:
    """The best of evenly spaced noises."""
    noise = inputs.noises(0, rule.noises).to(voter.device)
    low, high = (torch.tensor(end, **_on(voter)).log() for end in (rule.least, rule.most))
    levels = torch.linspace(0.0, 1.0, rule.steps, **_on(voter)) * (high - low) + low
    return _best(voter, inputs, levels.exp()[:, None].expand(-1, len(inputs.x)), noise)


def _best(voter: Voter, inputs: Inputs, candidates: Tensor, noise: Tensor) -> Tensor:
    """Of candidates (m, n) each input's best; the smaller noise wins a tie."""
    radii = torch.stack([_radii(voter, inputs, sigma, noise) for sigma in candidates])
    best: Tensor = candidates.gather(0, radii.argmax(0, keepdim=True))[0]
    return best


def _radii(voter: Voter, inputs: Inputs, sigma: Tensor, noise: Tensor) -> Tensor:
    with torch.no_grad():
        return soft_radii(soft_shares(voter, inputs.x.to(voter.device), sigma, noise), sigma)


def soft_shares(voter: Voter, x: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """p(sigma) of each input, (n, classes); noise is (n, copies, ...). A model without scores has votes instead."""
    wide = sigma.view(-1, *[1] * (noise.ndim - 1))
    noisy = (x[:, None] + wide * noise).flatten(0, 1)
    output = voter.model(noisy, float(sigma[0])) if voter.takes_sigma else voter.model(noisy)
    shares = (
        output.float().softmax(1)
        if output.ndim == 2
        else torch.nn.functional.one_hot(output.long(), voter.classes).float()
    )
    return shares.view(*noise.shape[:2], voter.classes).mean(1)


def soft_radii(shares: Tensor, sigma: Tensor) -> Tensor:
    """R(sigma) of each input, (n,)."""
    first, second = torch.special.ndtri(shares.topk(2, dim=1).values.clamp(LEAST, MOST)).unbind(1)
    radii: Tensor = sigma / 2 * (first - second)
    return radii
