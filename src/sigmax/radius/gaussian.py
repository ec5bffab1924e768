"""The radius of a classifier smoothed with Gaussian noise of one sigma."""

# L <= p_A and p_B <= U for every other class B; z = Phi^-1 of a bound

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sigmax.errors import RequestError
from sigmax.radius.normal import EPS, Floats, quantile_above, quantile_below


@overload
def gaussian(sigma: float, lower: float, upper: float | None = None) -> float: ...
@overload
def gaussian(sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any: ...
def gaussian(sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> Any:
    """Radius within which no other class overtakes A: sigma/2 * (Phi^-1(L) - Phi^-1(min(U, 1 - L))), rounded down.

    Without upper it is sigma * Phi^-1(L). 0 where nothing is proved, inf where L = 1 or U = 0 < L.
    Scalars give a float, arrays an array.

    Needs: the same sigma at every input; p_A >= lower, and p_B <= upper for every other class. With an upper bound
    L may lie below 1/2. If the bounds hold with probability 1 - alpha, so does the radius.
    Source: Cohen et al. (2019), Theorem 1; Salman et al. (2019), Lemma 1: sigma * Phi^-1(p_c(x)) is 1-Lipschitz in x.
    """
    scale, low = _sigma(sigma), _probability(lower, "lower")
    z = quantile_below(low)
    rival = -z  # Phi^-1(1 - L) without the rounding of 1 - L
    if upper is not None:
        rival = np.minimum(rival, quantile_above(_probability(upper, "upper")))
    gap = np.subtract(z, rival, out=np.zeros(np.broadcast_shapes(z.shape, rival.shape)), where=z > rival)
    return _plain(scale / 2 * gap * (1 - 4 * EPS))


@overload
def largest(sigma: float, n: int, alpha: float) -> float: ...
@overload
def largest(sigma: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any: ...
def largest(sigma: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> Any:
    """The largest radius n draws can certify at alpha, all of them for one class: sigma * Phi^-1(alpha^(1/n)), or 0.

    Scalars give a float, arrays an array. It serves to plan, not to certify: it is rounded to nearest.

    Source: Clopper & Pearson (1934) at k = n.
    """
    draws, alphas = np.asarray(n), np.asarray(alpha)
    if draws.dtype.kind not in "iuf" or not np.all((draws >= 1) & (draws == np.floor(draws))):
        raise RequestError(f"expected n to be a whole number of draws >= 1, got {n}; pass the n of the plan")
    if alphas.dtype.kind != "f" or not np.all((alphas > 0) & (alphas < 1)):
        raise RequestError(f"expected 0 < alpha < 1, got {alpha}; alpha is the chance of a wrong bound: 0.001 is usual")
    miss = -np.expm1(np.log(alphas) / draws)  # 1 - alpha^(1/n), with all its digits
    return _plain(_sigma(sigma) * np.maximum(0.0, -ndtri(miss)))
