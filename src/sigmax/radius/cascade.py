"""The radius of a cascade: levels tried in order; each answers a class or defers to the next."""

# Level j answers class c where its share of votes p_c > t_j, and defers where no class has it; t_j >= 1/2.
# A the class certified; L_j <= p_A and U_j >= p_c for every class c but A, at level j; z the score of its noise.

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sigmax.errors import RequestError
from sigmax.radius.noise import Noise

Choice = Callable[[Any, Any], Any]  # one of two numbers


class LevelBounds(NamedTuple):
    """What is known of one level: its noise, L_j (0: nothing), U_j (1: nothing) and its threshold t_j."""

    noise: Noise
    lower: float = 0.0
    upper: float = 1.0
    threshold: float = 0.5


def cascade(levels: Sequence[LevelBounds], last: float = 0.0) -> float:
    """Radius within which the cascade answers A; rounded down, or 0.

    `last`: how far the certifier below all levels certifies A, 0 where it certifies another class or none.
    With the answer radius R_j = z(L_j) - z(t_j) and the exclusion radius W_j = z(t_j) - z(U_j) of level j,

        R(k) = last,    R(j) = max(R_j, min(W_j, R(j + 1))),    and the radius is that of the first level.

    Needs: the same noise at every input of a level; bounds that hold together with probability 1 - alpha.
    Proof: scores are 1-Lipschitz. Below R_j the share of A is still above t_j, so level j answers A (no other class
    can be above t_j >= 1/2 as well). Below W_j no class but A is above t_j: level j answers A or defers, and what is
    below it answers A within R(j + 1). So a level torn between answering A and deferring loses nothing.
    Source: Jeong & Shin (2024), "Multi-scale diffusion denoised smoothing", for base classifiers that never defer;
    the maximum and the last certifier are ours.
    """
    radii = [(answer_radius(n, lower, t), exclusion_radius(n, upper, t)) for n, lower, upper, t in levels]
    found: float = _recursion(radii, _distance(float(last)), max, min)
    return found


def cascade_of_radii(levels: Sequence[tuple[ArrayLike, ArrayLike]], last: ArrayLike) -> Any:
    """The same from (R_j, W_j) of each level, for many inputs at once: each an array of one number for each input."""
    return _recursion(levels, _distance(np.asarray(last, dtype=np.float64)), np.maximum, np.minimum)


def _recursion(levels: Sequence[tuple[Any, Any]], last: Any, largest: Choice, smallest: Choice) -> Any:
    """R(0), where `largest` and `smallest` are those of two numbers, or of two arrays place by place."""
    proved = last
    for answer, excluded in reversed(levels):
        proved = largest(answer, smallest(excluded, proved))
    return proved


def _distance(last: Any) -> Any:
    if not (last >= 0 if isinstance(last, float) else np.all(last >= 0)):  # so written, NaN is refused too
        raise RequestError(f"expected last to be a distance of at least 0, got {last!r}; clip it at 0")
    return last


def answer_radius(noise: Noise, lower: float, threshold: float = 0.5) -> float:
    """R_j: radius within which a class with a share of at least `lower` here stays above the threshold, or 0."""
    return noise.margin(lower, check_threshold(threshold))


def exclusion_radius(noise: Noise, upper: float, threshold: float = 0.5) -> float:
    """W_j: radius within which no class with a share of at most `upper` here gets above the threshold, or 0."""
    return noise.margin(check_threshold(threshold), upper)


def check_threshold(threshold: float) -> float:
    """The threshold, from 1/2 on: below it two classes could be answered at once."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.5 <= threshold < 1:
        raise RequestError(
            f"a threshold must be a share of votes from 1/2 to below 1, got {threshold!r}; below 1/2 two classes could "
            "be answered at once"
        )
    return float(threshold)
