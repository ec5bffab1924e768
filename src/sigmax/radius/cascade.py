"""The radius of a cascade: scales of noise tried one after the other, until one of them names a class."""

# sigma_j, j = 1..k: the scales visited, in order; t_j their thresholds; A the class named at scale k;
# L <= p_A at scale k; U_j >= p_c at scale j < k for every class c but A; p_c and bounds at the input

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sigmax.errors import RequestError
from sigmax.radius._checks import Floats, noise, probability
from sigmax.radius.normal import EPS, quantile_above, quantile_below


def cascade(
    sigmas: Sequence[float],
    lower: float,
    uppers: Sequence[float] = (),
    *,
    thresholds: float | Sequence[float] = 0.5,
) -> float:
    """Radius within which the cascade names A and nothing else, at scale k or before; rounded down, or 0.

    The cascade names, at the first scale j where some class has p_c > t_j, that class. With thresholds t_j >= 1/2
    no two classes can have it. The radius is

        min( sigma_k * (Phi^-1(L) - Phi^-1(t_k)),  min over j < k of sigma_j * (Phi^-1(t_j) - Phi^-1(U_j)) )

    and for thresholds of 1/2 the published min(sigma_k * Phi^-1(L), min over j of sigma_j * (-Phi^-1(U_j))).

    Needs: the scales visited, in order, with one upper bound for each but the last. If the bounds hold together
    with probability 1 - alpha, so does the radius; 2K - 1 of them may be used among K scales.
    Proof: let |x' - x| = r be below the radius. sigma_j * Phi^-1(p_c) is 1-Lipschitz in the input. At a scale j <
    k and for a class c but A, sigma_j * Phi^-1(p_c(x')) <= sigma_j * Phi^-1(U_j) + r < sigma_j * Phi^-1(t_j): c
    is not named there. At scale k, sigma_k * Phi^-1(p_A(x')) >= sigma_k * Phi^-1(L) - r > sigma_k * Phi^-1(t_k):
    A is named there, if not before.
    Source: Jeong & Shin (2024), "Multi-scale diffusion denoised smoothing"; Lipschitz: Salman et al. (2019), App.
    A.
    """
    scales, rivals = _list(noise(sigmas), "sigmas"), _list(probability(uppers, "uppers"), "uppers")
    if len(rivals) != len(scales) - 1:
        raise RequestError(
            f"expected an upper bound for each scale before the last, got {len(scales)} sigmas and {len(rivals)} "
            "uppers; list the scales visited, in order, the one that named the class last"
        )
    marks = _thresholds(thresholds, len(scales))
    bound = float(probability(_scalar(lower), "lower"))
    if bound <= marks[-1] or np.any(rivals >= marks[:-1]):
        return 0.0
    named = scales[-1] * (quantile_below(np.array([bound])) - quantile_above(marks[-1:]))
    unnamed = scales[:-1] * (quantile_below(marks[:-1]) - quantile_above(rivals))
    return max(0.0, float(np.min(np.concatenate([named, unnamed]))) * (1 - 4 * EPS))


def _thresholds(value: ArrayLike, scales: int) -> Floats:
    marks = probability(value, "thresholds")
    if not np.all((marks >= 0.5) & (marks < 1)):
        raise RequestError(
            f"expected thresholds from 1/2 to below 1, got {value!r}; below 1/2 two classes could be named at once"
        )
    if marks.ndim == 0:
        return np.full(scales, float(marks))
    if marks.shape != (scales,):
        raise RequestError(
            f"expected one threshold, or one for each of {scales} scales, got {value!r}; list those visited"
        )
    return marks


def _list(values: Floats, name: str) -> Floats:
    if values.ndim != 1:
        raise RequestError(f"expected {name} to be a list of numbers, got {values.tolist()!r}; one for each scale")
    return values


def _scalar(lower: float) -> float:
    if np.ndim(lower) != 0:
        raise RequestError(
            f"expected lower to be one number, got {lower!r}; it bounds p_A at the last scale visited"
        )
    return lower
