"""Certificates that stay true because they are remembered: data-dependent noise made sound."""

# a stored ball i: centre x_i, class c_i, radius R_i; D_i the true and D~_i the computed distance of a new input x
# from x_i; e the relative error of distances
#
# Noise chosen for each input by itself is not locally constant: its plain radius proves nothing about neighbours.
# A memory makes it true by decree: an input inside a stored ball gets that ball's class. For this balls of
# different classes must not meet.
#
# Invariant: no point lies within R_i (1 + 2e) of x_i and within R_j (1 + 2e) of x_j for balls i, j of different
# classes. So an input *perhaps* in a ball, D~_i (1 - e) <= R_i, is perhaps in balls of one class only. The rule
# keeps it:
# 1. An input perhaps in a ball takes its class and, as radius, what is certainly left of the ball, R_i - D~_i (1 +
#    e) or 0: its ball lies in ball i, and so does its enlargement in that of ball i. (A point ball next to ball
#    i, radius 0, is no nearer to j.)
# 2. Any other ball is shrunk to R <= D~_j (1 - 4e) - R_j for all j of another class, so D_j (1 - 3e) >= R + R_j:
#    no point can lie in both enlargements.
# After 1. no ball of another class holds x, after 2. none is near: the rule is stable after two rounds.
# Guarantee: a later input within the radius certified at x is perhaps in x's ball, whatever the rounding, and
# gets x's class. This holds within this memory: another order of inputs may give other classes and radii, and
# answers given without the memory are not bound by it.

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigmax.errors import RequestError
from sigmax.radius._checks import Floats, spans
from sigmax.radius._checks import distances as lengths
from sigmax.radius.distances import flat_points, near_distances, relative_error, square_norms, squares_about
from sigmax.radius.normal import EPS

Labels = NDArray[np.int64]
Deciding = tuple[tuple[int, float], ...]  # balls by their place in the memory, with the input's distance from each


class Balls(NamedTuple):
    """What is stored, as seen from a new input."""

    apart: Floats  # its distances from the centres
    classes: Labels
    radii: Floats


class Settled(NamedTuple):
    """What is answered, how far it holds, and what the memory did: "kept", "shrunk", "grown" or "taken over"."""

    label: int | None
    radius: float
    how: str


def settle(
    label: int | None,
    radius: float,
    distances: ArrayLike,
    labels: Sequence[int] | Labels,
    radii: ArrayLike,
    *,
    error: float = 2 * EPS,
) -> Settled:
    """Class and radius of a new input that agree with the stored balls: the memory rule, repeated until stable.

    label and radius are what its own smoothed classifier certified (None and 0.0: nothing). In a ball of another
    class it takes that class, with what is left of that ball; outside of those its radius ends where they begin.
    Within a ball of its own class it keeps the larger of its own radius and what is left of that ball. O(stored
    balls).

    Needs: distances within the share `error` of the true ones; the stored balls settled by this rule, with an
    error no larger; every answer stored, also one of radius 0 (None is no answer).
    Source: Alfarra et al. (2022), "Data dependent randomized smoothing", the memory-based certification; rounding
    is ours.
    """
    apart, stored = lengths(distances, "distances"), lengths(radii, "radii")
    classes = np.asarray(labels, dtype=np.int64)
    if not apart.shape == stored.shape == classes.shape:
        raise RequestError(
            f"expected a distance, a class and a radius for each stored ball, got {len(apart)}, {classes.size} and "
            f"{len(stored)}; pass those of the same balls"
        )
    asked = float(spans(radius, "radius")) if label is not None else 0.0
    same = np.flatnonzero(apart == 0)
    if len(same):  # asked before: the same answer
        first = int(same[0])
        return _named(label, asked, int(classes[first]), float(stored[first]))
    now = label, asked
    for _ in range(3):
        after = _once(*now, Balls(apart, classes, stored), error + 4 * EPS)  # the rule's own roundings
        if after == now:
            break
        now = after
    else:
        raise RequestError(
            "expected balls of different classes apart, got some that meet; settle each before storing it"
        )
    return _named(label, asked, *now)


def _once(label: int | None, radius: float, balls: Balls, error: float) -> tuple[int | None, float]:
    apart, classes, radii = balls
    holding = apart * (1 - error) <= radii
    left = np.maximum(0.0, (radii - apart * (1 + error)) * (1 - 4 * EPS))
    other = np.full(len(classes), True) if label is None else classes != label
    if np.any(holding & other):
        ball = int(np.argmax(np.where(holding & other, left, -1.0)))
        return int(classes[ball]), float(left[ball])
    if label is None:
        return None, 0.0
    room = np.where(other, (apart * (1 - 4 * error) - radii) * (1 - 4 * EPS), np.inf)
    own = min(radius, max(0.0, float(np.min(room, initial=np.inf))))
    return label, max(own, float(np.max(np.where(holding, left, 0.0), initial=0.0)))


def _named(asked_label: int | None, asked: float, label: int | None, radius: float) -> Settled:
    if label != asked_label:
        return Settled(label, radius, "taken over")
    return Settled(label, radius, "kept" if radius == asked else "shrunk" if radius < asked else "grown")


def _deciding(label: int | None, radius: float, found: Settled, balls: Balls, error: float) -> list[int]:
    """As few balls as make the same of the input: the nearest of another class, and those that leave it most."""
    chosen = (
        _extremes(label, balls) | _extremes(found.label, balls) | set(np.flatnonzero(balls.apart == 0)[:1].tolist())
    )
    kept = sorted(chosen)
    for ball in sorted(chosen):
        fewer = [i for i in kept if i != ball]
        if settle(label, radius, *_some(balls, fewer), error=error) == found:
            kept = fewer
    same = settle(label, radius, *_some(balls, kept), error=error) == found
    return kept if same else list(range(len(balls.apart)))


def _some(balls: Balls, chosen: list[int]) -> Balls:
    return Balls(balls.apart[chosen], balls.classes[chosen], balls.radii[chosen])


def _extremes(label: int | None, balls: Balls) -> set[int]:
    other = np.full(len(balls.classes), True) if label is None else balls.classes != label
    left = balls.radii - balls.apart
    # The rule's margins are a tiny share of the distance: what is extreme with them is among the first without.
    nearest = np.argsort(np.where(other, -left, np.inf), kind="stable")[:2]
    deepest = [np.argsort(np.where(group, -left, np.inf), kind="stable")[:2] for group in (other, ~other)]
    return {int(i) for some in (nearest, *deepest) for i in some}


class Memory:
    """The balls certified so far, in order, with a look-up that is fast among many.

    Products in single precision leave out the balls that are certainly too far to matter; the distances of the
    others are taken in double precision. Centres are kept in the precision of `dtype`; an input it cannot hold
    exactly is refused. Not for several writers: what is settled depends on the order.
    """

    def __init__(self, dim: int, *, dtype: Any = np.float32) -> None:
        self.dim, self.error = dim, relative_error(dim)
        self.labels: list[int] = []
        self.radii: list[float] = []
        self._centres = np.empty((16, dim), dtype=dtype)
        self._norms = np.empty(16)

    def __len__(self) -> int:
        return len(self.labels)

    def answer(self, x: object, label: int | None, radius: float) -> Settled:
        """What is answered at x, given what its own classifier certified; remembered unless it is None."""
        point = self._point(x)
        found = self.look_up(point, label, radius)
        if found.label is not None:
            self.add(point, found.label, found.radius)
        return found

    def look_up(self, x: object, label: int | None, radius: float) -> Settled:
        """The same without remembering it."""
        point = self._point(x)
        near = self._near(point, radius if label is not None else 0.0)
        apart = near_distances(self._centres, near, point)
        labels, radii = np.array(self.labels, dtype=np.int64)[near], np.array(self.radii)[near]
        return settle(label, radius, apart, labels, radii, error=self.error)

    def explain(self, x: object, label: int | None, radius: float) -> "tuple[Settled, Deciding]":
        """What `look_up` finds, and the few balls that decide it: from them alone `settle` finds the same."""
        point = self._point(x)
        near = self._near(point, radius if label is not None else 0.0)
        apart = near_distances(self._centres, near, point)
        balls = Balls(apart, np.array(self.labels, dtype=np.int64)[near], np.array(self.radii)[near])
        found = settle(label, radius, *balls, error=self.error)
        chosen = _deciding(label, radius, found, balls, self.error)
        return found, tuple((int(near[i]), float(apart[i])) for i in chosen)

    def add(self, x: object, label: int, radius: float) -> None:
        """Store a ball that was settled in this memory, as when a run is taken up again."""
        point, count = self._point(x), len(self)
        if count == len(self._norms):
            self._centres = np.concatenate([self._centres, np.empty_like(self._centres)])
            self._norms = np.concatenate([self._norms, np.empty_like(self._norms)])
        self._centres[count] = point
        self._norms[count] = square_norms(point[None])[0]
        self.labels.append(int(label))
        self.radii.append(float(spans(radius, "radius")))

    def _near(self, point: NDArray[Any], radius: float) -> NDArray[np.intp]:
        """Balls that may hold the point or reach into its own ball."""
        count = len(self)
        about, off = squares_about(self._centres[:count], self._norms[:count], point[None])
        reach = (np.array(self.radii) + radius) * (1 + 16 * self.error)
        return np.flatnonzero(about[0] - off[0] <= reach**2 * (1 + 16 * EPS))

    def _point(self, x: object) -> NDArray[Any]:
        given = flat_points(np.asarray(x)[None], "the input")[0]
        point: NDArray[Any] = given.astype(self._centres.dtype)
        if point.shape != (self.dim,) or not np.array_equal(point, given):
            raise RequestError(
                f"expected an input of {self.dim} numbers exact in {self._centres.dtype}, got {given.dtype} of "
                f"shape {given.shape}; build the memory with that dim and dtype={given.dtype}"
            )
        return point
