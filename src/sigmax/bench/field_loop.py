"""The certify loop of the field's scripts, written anew after the description all of them follow.

One image at a time, batches of 1,000, noise from the global generator, 32 bits as torch has them by default, a
blocking copy to the host, votes counted one by one in Python. Its bounds cost it nothing here.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sigmax.certify.dual import Dual
from sigmax.certify.dual_parts import ROUTER, expert_name
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.procedure import prefixed
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.errors import RequestError
from sigmax.noise.voter import Model

BATCH = 1_000


def count_votes(model: Model, x: Tensor, sigma: float, n: int, classes: int) -> list[int]:
    """The counts of n noisy copies of one image."""
    counts = [0] * classes
    takes_sigma = bool(getattr(model, "takes_sigma", False))
    with torch.no_grad():
        for _ in range(math.ceil(n / BATCH)):
            this_batch = min(BATCH, n)
            n -= this_batch
            batch = x.repeat((this_batch, *(1 for _ in x.shape)))
            noisy = batch + torch.randn_like(batch) * sigma
            scores = model(noisy, sigma) if takes_sigma else model(noisy)
            for vote in scores.argmax(1).cpu().numpy():
                counts[vote] += 1
    return counts


def sampler(scheme: Scheme, *, n0: int, n: int) -> Callable[[Tensor], list[str]]:
    """What the field would run for this scheme: a function of one image (on the device) that names who voted.

    A dual system runs as published: the router's votes, then those of the expert it names; where it names a class
    itself, no more.
    """
    if isinstance(scheme, Smoothed):

        def certify(x: Tensor) -> list[str]:
            _certify(scheme, x, n0, n)
            return ["base"]

        return certify
    if not isinstance(scheme, Dual) or not all(isinstance(expert, Smoothed) for expert in scheme.experts):
        raise RequestError(
            "the field has a loop for one noise level and for a router over such; bench one of these"
        )

    def route_and_certify(x: Tensor) -> list[str]:
        route = _certify(scheme.router, x, n0, n)
        assert isinstance(scheme.rule, DualRule)
        if scheme.rule.names:
            if route < scheme.classes:
                return [prefixed(ROUTER, "base")]
            route = 0
        expert = scheme.experts[route]
        assert isinstance(expert, Smoothed)
        _certify(expert, x, n0, n)
        return [prefixed(ROUTER, "base"), prefixed(expert_name(route), "base")]

    return route_and_certify


def _certify(smoothed: Smoothed, x: Tensor, n0: int, n: int) -> int:
    """All votes, and the class that the first n0 picked."""
    model = smoothed.voters["base"].model
    picks = count_votes(model, x, smoothed.sigma, n0, smoothed.classes)
    count_votes(model, x, smoothed.sigma, n, smoothed.classes)
    return picks.index(max(picks))
