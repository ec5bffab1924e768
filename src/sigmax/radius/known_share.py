"""The radius under Gaussian noise where p_A itself is known: to plan and to explain, not to certify.

# p = p_A, the class's true probability under noise; R = sigma * Phi^-1(p), its radius; all rounded to nearest
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from sigmax.radius._checks import noise, plain, probability, spans


def limit(sigma: ArrayLike, p: ArrayLike) -> Any:
    """R, or 0 where p is at most one half: what certified radii approach with more samples and never reach."""
    return plain(noise(sigma) * np.maximum(0.0, ndtri(probability(p, "p"))))


def least_share(sigma: ArrayLike, radius: ArrayLike) -> Any:
    """The p_A whose R is `radius` exactly: Phi(radius / sigma)."""
    return plain(ndtr(spans(radius, "radius") / noise(sigma)))


def most_missing(sigma: ArrayLike, radius: ArrayLike) -> Any:
    """1 - `least_share`, exact where that would be rounded to 1."""
    return plain(ndtr(-spans(radius, "radius") / noise(sigma)))


def slope(sigma: ArrayLike, p: ArrayLike) -> Any:
    """dR/dp_A = sigma / phi(Phi^-1(p)), phi the normal density; 0 where p is at most one half."""
    share = probability(p, "p")
    steep = noise(sigma) * np.sqrt(2 * np.pi) * np.exp(ndtri(share) ** 2 / 2)
    return plain(np.where(share > 0.5, steep, 0.0))
