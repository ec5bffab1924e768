"""The radius of a classifier smoothed with Gaussian noise of one sigma."""

# L <= p_A and p_B <= U for every other class B; z = Phi^-1 of a bound

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sigmax.radius._checks import level, noise, plain, probability, samples
from sigmax.radius.normal import EPS, quantile_above, quantile_below


@overload
def gaussian(sigma: float, lower: float, upper: float | None = None) -> float: ...
@overload
def gaussian(sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any: ...
def gaussian(sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any:
    """Radius within which no other class overtakes A: sigma/2 * (Phi^-1(L) - Phi^-1(min(U, 1 - L))), rounded down.

    Without upper it is sigma * Phi^-1(L). 0 where nothing is proved, inf where L = 1 or U = 0 < L.
    The rounding costs less than 1e-14 * sigma * (|Phi^-1(L)| + |Phi^-1(U)|). Scalars give a float, arrays an array.

    Needs: the same sigma at every input; p_A >= lower, and p_B <= upper for every other class. With an upper bound
    L may lie below 1/2. If the bounds hold with probability 1 - alpha, so does the radius.
    Source: Cohen et al. (2019), Theorem 1; Salman et al. (2019), App. A: sigma * Phi^-1(p_c(x)) is 1-Lipschitz.
    """
    z = quantile_below(probability(lower, "lower"))
    rival = -z  # Phi^-1(1 - L), without the rounding of 1 - L
    if upper is not None:
        rival = np.minimum(rival, quantile_above(probability(upper, "upper")))
    with np.errstate(invalid="ignore"):  # L = U = 0 proves nothing, whatever inf - inf is
        gap = np.where(z > rival, z - rival, 0.0)
    return plain(noise(sigma) / 2 * gap * (1 - 4 * EPS))


@overload
def largest(sigma: float, n: int, alpha: float) -> float: ...
@overload
def largest(sigma: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any: ...
def largest(sigma: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any:
    """The largest radius n samples can certify at alpha, if all agree: sigma * Phi^-1(alpha^(1/n)), or 0.

    It serves to plan, not to certify: rounded to nearest, it is never below what `gaussian` gives for n votes of n.
    Scalars give a float, arrays an array.

    Source: Clopper & Pearson (1934) at k = n; Cohen et al. (2019), Sec. 3.2.2.
    """
    miss = -np.expm1(np.log(level(alpha)) / samples(n))  # 1 - alpha^(1/n), with all its digits
    return plain(noise(sigma) * np.maximum(0.0, -ndtri(miss)))
