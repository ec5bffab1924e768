"""How near a scheme is to answering each class, differentiably: what a gradient attack climbs.

# u_c log-odds of class c on one noisy input, less those of the confidence asked for where the model is selective
# q_c mean over noise of sigmoid(u_c), a soft share of the votes; l_c = log q_c - log(1 - q_c), which never saturates
# t threshold of a level; m_c > 0 where the scheme, with soft votes, answers c; in units of sigma

    Smoothed   m_c = sigma (l_c - max of the others)         (selective: sigma l_c, a majority)
    Cascade    m_c = max over levels j of min(levels above defer, level j answers c), the last by its own margin
    Dual       m_c = max over routes j of min(route j wins, m_c of expert j)

Votes are hard, so m is a surrogate: it points the way, and only predictions tell whether an answer has changed.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.models.answers import as_tensor
from sigmax.models.selective import Selective
from sigmax.schemes.cascade import Cascade
from sigmax.schemes.dual import Dual
from sigmax.schemes.lipschitz import Lipschitz
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.semi_elastic import SemiElastic
from sigmax.schemes.smoothed import Smoothed

Margins = Callable[[Tensor], Tensor]  # points (m, ...) to margins (m, classes), with fresh noise at every call


class Noises(NamedTuple):
    """How many noises a point and network gets, and where they come from."""

    samples: int
    generator: torch.Generator


class NoGradientError(RequestError):
    """A scheme, or a network in it, without gradients in its input."""


def margins(scheme: Scheme, samples: int, generator: torch.Generator) -> Margins:
    """The margins of a scheme, estimated with `samples` noises a point and network."""

    def of(points: Tensor) -> Tensor:
        return _margins(scheme, points, Noises(samples, generator))

    return of


def _margins(scheme: Scheme, points: Tensor, noises: Noises) -> Tensor:
    if isinstance(scheme, Cascade):
        found = _margins(scheme.last, points, noises)
        for level, threshold in reversed(list(zip(scheme.levels, scheme.thresholds, strict=True))):
            odds = _odds(level.voters["base"], points, level.sigma, level.classes, noises)
            answers = level.sigma * (odds - math.log(threshold / (1 - threshold)))
            defers = -answers.amax(1, keepdim=True)
            found = torch.maximum(answers, torch.minimum(defers, found))
        return found
    if isinstance(scheme, Dual):
        routes = _margins(scheme.router, points, noises)
        experts = [_margins(expert, points, noises) for expert in scheme.experts]
        both = [torch.minimum(routes[:, j : j + 1], expert) for j, expert in enumerate(experts)]
        return torch.stack(both).amax(0)
    if isinstance(scheme, Smoothed):
        odds = _odds(scheme.voters["base"], points, scheme.sigma, scheme.classes, noises)
        return scheme.sigma * (odds if getattr(scheme.rule, "defers", False) else _lead(odds))
    if isinstance(scheme, Lipschitz):
        return _lead(_odds(scheme.voters["base"], points, 0.0, scheme.classes, noises._replace(samples=1)))
    if isinstance(scheme, SemiElastic):
        sigmas = torch.from_numpy(scheme.field.sigmas(points.detach().cpu())).float()
        wide = sigmas.view(-1, *(1,) * (points.ndim - 1)).to(points.device)
        return _lead(_odds(scheme.voters["base"], points, wide, scheme.classes, noises))
    raise NoGradientError(f"{type(scheme).__name__} has no known margin; it is attacked by its predictions alone")


def _lead(odds: Tensor) -> Tensor:
    """How far each class is ahead of the best of the others."""
    (first, second), top = odds.topk(2, dim=1).values.T, odds.argmax(1, keepdim=True)
    ahead = torch.zeros_like(odds).scatter(1, top, (first - second)[:, None])
    lead: Tensor = odds - first[:, None] + ahead
    return lead


def _odds(voter: Voter, points: Tensor, sigma: float | Tensor, classes: int, noises: Noises) -> Tensor:
    """The log-odds of soft shares of the votes, (m, classes); where all classes lie far below, so do their odds."""
    noise = torch.randn(noises.samples, *points.shape, generator=noises.generator, device=points.device)
    noisy = (points + sigma * noise).flatten(0, 1).to(voter.device)
    noisy = noisy.contiguous(memory_format=voter.layout if noisy.ndim == 4 else torch.contiguous_format)
    level = float(torch.as_tensor(sigma).mean())
    rounded = voter.dtype is not torch.float32
    try:
        with torch.autocast(voter.device.type, dtype=voter.dtype if rounded else None, enabled=rounded):
            output = as_tensor(voter.model(noisy, level) if voter.takes_sigma else voter.model(noisy), voter.device)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # such as from a model that leaves torch, and computes on numpy arrays
        raise NoGradientError(f"a network of the system cannot be differentiated: {error}") from error
    if output.ndim != 2 or not output.requires_grad:
        raise NoGradientError("a network of the system has no gradient in its input; it is attacked by predictions")
    shares = output[:, :classes] if isinstance(voter.model, Selective) else output.float().log_softmax(1)
    shares = shares.float().to(points.device)
    sure = voter.model.confidence if isinstance(voter.model, Selective) else 0.5
    u = (_log_odds(shares)[:, :classes] - math.log(sure / (1 - sure))).view(noises.samples, len(points), classes)
    return torch.nn.functional.logsigmoid(u).logsumexp(0) - torch.nn.functional.logsigmoid(-u).logsumexp(0)


def _log_odds(logp: Tensor) -> Tensor:
    """log p - log(1 - p) from log-probabilities (n, classes); of the leading class 1 - p is summed from the others."""
    top = torch.zeros_like(logp, dtype=torch.bool).scatter(1, logp.argmax(1, keepdim=True), True)
    rest = logp.masked_fill(top, -math.inf).logsumexp(1, keepdim=True)
    small = torch.log1p(-logp.masked_fill(top, -1.0).exp().clamp_max(0.5))
    return logp - torch.where(top, rest, small)
