"""The search for the best thresholds: the best of a coarse grid, and uphill from there by smaller and smaller steps."""

import itertools
import math
from collections.abc import Callable, Iterable

STEPS = (1.0, 0.5, 0.25, 0.125)  # by which log(c / (1 - c)) is moved, from coarse to fine
FURTHEST = 6.0  # of log(c / (1 - c)): no threshold of any use is beyond
GRID = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0)  # of log(c / (1 - c)): where the search looks first
MOST = 2000  # places it looks at first; with more levels those of one threshold for all

Worth = Callable[[tuple[float, ...]], tuple[float, float]]  # of confidences; the more the better
Place = tuple[float, ...]  # log(c / (1 - c)) of each level


def best_confidence(worth: Worth, levels: int) -> tuple[float, ...]:
    """Confidences that no neighbour is better than, by the smallest step."""

    def best(places: Iterable[Place]) -> tuple[tuple[float, float], Place]:
        return max((worth(_confidence(place)), place) for place in places)

    found, here = best(_first_places(levels))
    for step in STEPS:
        while True:
            around = {tuple(map(sum, zip(here, move, strict=True))) for move in _moves(step, levels)} - {here}
            better, then = best(sorted(at for at in around if max(map(abs, at)) <= FURTHEST))
            if better <= found:
                break
            found, here = better, then
    return _confidence(here)


def first_confidences(levels: int) -> list[tuple[float, ...]]:
    """The coarse grid that the search looks at first."""
    return [_confidence(place) for place in _first_places(levels)]


def _first_places(levels: int) -> Iterable[Place]:
    few = len(GRID) ** levels <= MOST
    return itertools.product(GRID, repeat=levels) if few else ((at,) * levels for at in GRID)


def _moves(step: float, levels: int) -> Iterable[Place]:
    return itertools.product((-step, 0.0, step), repeat=levels)


def _confidence(place: Place) -> tuple[float, ...]:
    return tuple(1 / (1 + math.exp(-at)) for at in place)
