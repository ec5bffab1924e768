"""Systems made of parallel slabs, whose decision regions and exact radii are known.

# A classifier by slabs along a unit vector u gives class c where u.x lies between two edges; a half-space has one.
# Smoothed it is a classifier by slabs again: two of them meet where their shares are equal, and the difference of
# two changes sign once under Gaussian noise, so every class keeps one interval (or loses it).
# A region is a list of half-spaces a.x <= b with a class; a routed system has a region for each pair of them.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import norm

import sigmax as sx
from sigmax.schemes.scheme import Scheme
from tests.schemes.helpers import slabs

Halfspace = tuple[np.ndarray, float]
Region = tuple[list[Halfspace], int]


def voted(u, edges, sigma: float, x) -> np.ndarray:
    """The classes that win at the points x (points, dimensions), from the shares of the votes alone."""
    t = x @ np.asarray(u) / np.linalg.norm(u)
    shares = np.diff(norm.cdf([-np.inf, *edges, np.inf], t[:, None], sigma), axis=1)
    return np.argmax(shares, axis=1)


def intervals(sigma: float, edges) -> list[tuple[float, float, int]]:
    """Where along its axis each class of a classifier by slabs wins under noise."""
    span = min(edges) - 20 * sigma, max(edges) + 20 * sigma

    def meet(c: int, d: int) -> float:
        # By logarithms, which differ in sign at both ends where the shares themselves are all but equal.
        def lead(t: float) -> float:
            return log_share(t, sigma, edges, c) - log_share(t, sigma, edges, d)

        return float(brentq(lead, *span, xtol=1e-13))

    classes = range(len(edges) + 1)
    found = []
    for c in classes:
        low = max((meet(b, c) for b in classes if b < c), default=-np.inf)
        high = min((meet(c, d) for d in classes if d > c), default=np.inf)
        if low < high:
            found.append((low, high, c))
    return found


def log_share(t: float, sigma: float, edges, c: int) -> float:
    """The logarithm of a slab's share, also far out in a tail."""
    low, high = (([-np.inf, *edges, np.inf][i] - t) / sigma for i in (c, c + 1))
    if low > 0:  # by symmetry into the tail that has all digits
        low, high = -high, -low
    upper, lower = norm.logcdf(high), norm.logcdf(low)
    return float(upper + np.log1p(-np.exp(lower - upper)))


@dataclass
class Known:
    """A scheme whose regions are known."""

    scheme: Scheme
    regions: list[Region]

    def at(self, x) -> tuple[int, float]:
        """The exact class at x, and the distance to the nearest point of another class."""
        inside = {c for halfspaces, c in self.regions if all(a @ x <= b for a, b in halfspaces)}
        (here,) = inside
        return here, min(distance(x, halfspaces) for halfspaces, c in self.regions if c != here)


def smoothed(u, edges, sigma: float, **options) -> Known:
    """A classifier by slabs along u, smoothed."""
    u = np.asarray(u, dtype=np.float64) / np.linalg.norm(u)
    regions = [([(-u, -low), (u, high)], c) for low, high, c in intervals(sigma, edges)]
    scheme = sx.Smoothed(slabs(u, edges), sigma=sigma, classes=len(edges) + 1, **options)
    return Known(scheme, [([h for h in hs if np.isfinite(h[1])], c) for hs, c in regions])


def planes(u, edge: float) -> Known:
    """A linear network of constant 1 with two classes, that meet where u.x = edge."""
    u = np.asarray(u, dtype=np.float64) / np.linalg.norm(u)
    axis = torch.as_tensor(u, dtype=torch.float32)

    def network(batch):
        score = (batch @ axis - edge) / 2**0.5
        return torch.stack([-score, score], 1)

    return Known(sx.Lipschitz(network, 1.0, classes=2), [([(u, edge)], 0), ([(-u, -edge)], 1)])


def dual(router: Known, experts: list[Known], rule: str) -> Known:
    """A routed system: in each region of the router, the regions of the expert that is in charge there."""
    regions = [(there + here, c) for there, route in router.regions for here, c in experts[route].regions]
    return Known(sx.Dual(router.scheme, [expert.scheme for expert in experts], rule=rule), regions)


@dataclass(frozen=True)
class Level:
    """A classifier by slabs; `outcomes`: the class of each slab in their order, or None where it votes to defer."""

    u: tuple[float, float]
    edges: tuple[float, ...]
    outcomes: tuple[int | None, ...]
    sigma: float
    threshold: float = 0.5

    def scheme(self, classes: int) -> sx.Smoothed:
        """As a level of a cascade; it has a column for votes to defer if it ever casts one."""
        by_slab = slabs(np.asarray(self.u) / np.linalg.norm(self.u), self.edges)
        order = torch.tensor([classes if c is None else c for c in self.outcomes])

        def network(batch):
            return order[by_slab(batch)]

        network.defers = None in self.outcomes
        return sx.Smoothed(network, sigma=self.sigma, classes=classes)

    def answers(self) -> list[tuple[float, float, int]]:
        """Where along its axis which class is answered."""
        found = zip(pairwise([-np.inf, *self.edges, np.inf]), self.outcomes, strict=True)
        parts = [(above(self.sigma, *slab, self.threshold), c) for slab, c in found if c is not None]
        return sorted((*where, c) for where, c in parts if where is not None)


def cascade(levels: list[Level], last: Known) -> Known:
    """A cascade of classifiers by slabs: a level answers where a slab's share is above its threshold."""
    regions = last.regions
    for level in reversed(levels):
        u = np.asarray(level.u, dtype=np.float64) / np.linalg.norm(level.u)
        answers = level.answers()
        ends = [-np.inf, *(edge for low, high, _ in answers for edge in (low, high)), np.inf]
        deferred = [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high]
        below = [(_between(u, *part) + here, c) for part in deferred for here, c in regions]
        regions = [(_between(u, low, high), c) for low, high, c in answers] + below
    parts = [level.scheme(last.scheme.classes) for level in levels]
    return Known(sx.Cascade(parts, last.scheme, thresholds=[level.threshold for level in levels]), regions)


def above(sigma: float, low: float, high: float, threshold: float) -> tuple[float, float] | None:
    """Where along its axis a slab has more than the threshold's share of the votes."""
    if np.isinf(low) or np.isinf(high):
        away = sigma * float(norm.ppf(threshold))
        return low + away, high - away

    def lead(t: float) -> float:
        return float(norm.cdf(high, t, sigma) - norm.cdf(low, t, sigma)) - threshold

    middle = (low + high) / 2
    if lead(middle) <= 0:
        return None
    edge = float(brentq(lead, middle, high + 20 * sigma, xtol=1e-13))
    return 2 * middle - edge, edge


def _between(u, low: float, high: float) -> list[Halfspace]:
    return [h for h in ((-u, -low), (u, high)) if np.isfinite(h[1])]


def distance(x, halfspaces: list[Halfspace]) -> float:
    """From x to the points in all half-spaces: the nearest is the projection onto the planes that bind it."""
    normals = np.array([a for a, _ in halfspaces])
    offsets = np.array([b for _, b in halfspaces])
    best = np.inf
    for size in range(len(x) + 1):
        for chosen in map(list, combinations(range(len(halfspaces)), size)):
            a, b = normals[chosen], offsets[chosen]
            y = x + np.linalg.pinv(a) @ (b - a @ x) if size else x
            if np.all(normals @ y <= offsets + 1e-9):
                best = min(best, float(np.linalg.norm(y - x)))
    return best
