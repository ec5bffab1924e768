"""Cohen et al.'s reference loop, written from its published description.

One image at a time, batches of 1,000, noise from the global generator, 32 bits as torch has them by default, a
blocking copy to the host, votes counted one by one in Python. Its bounds cost it nothing here.
"""

import math
from collections import Counter

import torch
from torch import Tensor

from sigmax.engine.outputs import class_ids
from sigmax.engine.settings import Model
from sigmax.engine.splits import split_copies
from sigmax.models.answers import as_tensor
from sigmax.noise import Gaussian, Uniform
from sigmax.rules.cascade.parts import LAST, level_name
from sigmax.rules.certificate import joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.routed.parts import ROUTER, expert_name
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.dual import Dual
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.schemes.splitting import Splitting

BATCH = 1_000
Votes = Counter[str]  # how many votes each network cast


def count_votes(
    model: Model, x: Tensor, sigma: float, n: int, classes: int, *, noise: str = Gaussian.name
) -> list[int]:
    """The counts of n noisy copies of one image; sigma: the level of the noise."""
    counts = [0] * classes
    takes_sigma = bool(getattr(model, "takes_sigma", False))
    with torch.no_grad():
        for _ in range(math.ceil(n / BATCH)):
            this_batch = min(BATCH, n)
            n -= this_batch
            batch = x.repeat((this_batch, *(1 for _ in x.shape)))
            level_one = torch.rand_like(batch) * 2 - 1 if noise == Uniform.name else torch.randn_like(batch)
            noisy = batch + level_one * sigma
            output = as_tensor(model(noisy, sigma) if takes_sigma else model(noisy), x.device)
            for vote in class_ids(output, this_batch, classes)[0].cpu().numpy():
                counts[vote] += 1
    return counts


def count_splits(scheme: Splitting, x: Tensor, classes: int) -> list[int]:
    """The counts of one image at every offset, batch by batch."""
    counts, split = [0] * classes, scheme.noise
    steps = (x.flatten() * split.grid).round().long()
    model = scheme.voters[NETWORK].model
    with torch.no_grad():
        for first in range(0, split.offsets, BATCH):
            last = min(first + BATCH, split.offsets)
            seen = split_copies(steps, split, first, last).view(-1, *x.shape)
            for vote in class_ids(as_tensor(model(seen), x.device), last - first, classes)[0].cpu().numpy():
                counts[vote] += 1
    return counts


def certify(scheme: Scheme, x: Tensor, *, n0: int, n: int, part: str = "") -> tuple[list[int], Votes]:
    """What the reference loop runs for one image (on the device): the selection counts, and who voted how often.

    A dual system runs as published: the router's votes, then those of the expert it picks. A cascade runs level by
    level until one answers. Where each input has its own noise, that is chosen as the scheme does it.
    """
    if isinstance(scheme, Dual):
        routes, votes = certify(scheme.router, x, n0=n0, n=n, part=joined(part, ROUTER))
        route = routes.index(max(routes))
        counts, more = certify(scheme.experts[route], x, n0=n0, n=n, part=joined(part, expert_name(route)))
        return counts, votes + more
    if isinstance(scheme, Cascade):
        return _descend(scheme, x, n0, n, part)
    (voter,) = scheme.voters.values()
    network = joined(part, NETWORK)
    if isinstance(scheme, Splitting):
        return count_splits(scheme, x, voter.classes), Counter({network: scheme.noise.offsets})
    if not voter.votes:
        with torch.no_grad():
            return count_votes(voter.model, x, 0.0, 1, voter.classes), Counter({network: 1})
    own = scheme.own_noise(x[None].cpu(), [0], 0)
    sigma = next(iter(own.values()))[0] if own else scheme.sigma_of(NETWORK)
    noise = scheme.noise.name if isinstance(scheme, Smoothed) else Gaussian.name
    picks = count_votes(voter.model, x, sigma, n0, voter.classes, noise=noise)
    count_votes(voter.model, x, sigma, n, voter.classes, noise=noise)
    return picks, Counter({network: n0 + n})


def _descend(cascade: Cascade, x: Tensor, n0: int, n: int, part: str) -> tuple[list[int], Votes]:
    votes: Votes = Counter()
    for j, (level, threshold) in enumerate(zip(cascade.levels, cascade.thresholds, strict=True)):
        counts, more = certify(level, x, n0=n0, n=n, part=joined(part, level_name(j)))
        votes += more
        if max(counts[: cascade.classes]) > threshold * n0:
            return counts, votes
    counts, more = certify(cascade.last, x, n0=n0, n=n, part=joined(part, LAST))
    return counts, votes + more
