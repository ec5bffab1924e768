"""Points of an l2 ball, as 32-bit inputs: what counts as inside is decided with rounding against the attack."""

import math

import numpy as np
import torch
from torch import Tensor

from sigmax.schemes.scheme import Domain

MARGIN = 1e-6  # by which a projection stays inside; 32-bit pixels are rounded by less


def distance_up(x: Tensor, point: Tensor) -> float:
    """An upper bound of the l2 distance of two inputs of 32-bit floats, at most some 1e-12 of it too large.

    In 64 bits a difference, its square and each addition err by half a unit in the last place of their results, and
    every term is positive: with m numbers the sum is off by at most m + 2 such units, its root by half as many.
    """
    apart = x.flatten().numpy().astype(np.float64) - point.flatten().numpy().astype(np.float64)
    unit, least = np.finfo(np.float64).eps, np.finfo(np.float64).tiny
    total = float(np.square(apart).sum()) + apart.size * least * bool(apart.any())  # squares may underflow
    return math.nextafter(math.sqrt(total) * (1 + (apart.size + 4) * unit), math.inf)


def limits(x: Tensor, domain: Domain) -> tuple[float, float]:
    """The range that the numbers of one input must lie in, as `Scheme` checks it."""
    if domain == "images":
        domain = (0.0, 1.0) if x.ndim >= 3 else None
    return (-math.inf, math.inf) if domain is None else domain


def into_ball(x: Tensor, points: Tensor, radius: float, domain: Domain) -> Tensor:
    """The points (m, ...), moved towards `x` until they lie in the open ball, and into the domain."""
    axes = (1,) * x.ndim
    most = radius * (1 - MARGIN)
    away = (points - x).double()
    norms = away.flatten(1).norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    away = away * (most / norms).clamp_max(1.0).view(-1, *axes)
    moved = (x + away).float().clamp(*limits(x, domain))
    # Where the radius is no more than a few steps of 32-bit floats only the input itself may be left.
    outside = torch.tensor([distance_up(x, point) >= radius for point in moved])
    return torch.where(outside.view(-1, *axes), x, moved)
