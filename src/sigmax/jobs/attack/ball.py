"""Points of an l2 ball, as 32-bit inputs: what counts as inside is decided with rounding against the attack."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sigmax.schemes.scheme import Domain

MARGIN = 1e-6  # by which a projection stays inside; in all but tiny balls 32-bit pixels are rounded by less
DRAWN = (1.0, 0.9999, 0.98, 0.95, 0.9, 0.8, 0.6, 0.3)  # parts of the way that are tried until a rounded point is inside


class Space(NamedTuple):
    """Where the inputs of a scheme lie: the range of their numbers, and the grid they are multiples on, if any."""

    domain: Domain
    grid: int | None

    def nearest(self, x: Tensor, points: Tensor) -> Tensor:
        """The points nearest to `points` that may be inputs; `x` is one."""
        points = points.clamp(*limits(x, self.domain))
        return points if self.grid is None else (points * self.grid).round() / self.grid


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


def into_ball(x: Tensor, points: Tensor, radius: float, space: Space) -> Tensor:
    """The points (m, ...), moved towards `x` until they lie in the open ball and may be inputs."""
    axes = (1,) * x.ndim
    most = radius * (1 - MARGIN)
    away = (points - x).double()
    norms = away.flatten(1).norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    away = away * (most / norms).clamp_max(1.0).view(-1, *axes)
    # Where the radius is no more than a few steps of floats or of the grid, only the input itself may be left.
    found, left = x.expand_as(points).clone(), torch.ones(len(points), dtype=torch.bool)
    for part in DRAWN:
        moved = space.nearest(x, (x + part * away[left]).float())
        inside = torch.tensor([distance_up(x, point) < radius for point in moved], dtype=torch.bool)
        places = left.nonzero()[:, 0][inside]
        found[places], left[places] = moved[inside], False
        if not left.any():
            break
    return found
