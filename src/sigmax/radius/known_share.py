"""The radius where p_A itself is known: to plan and to explain, not to certify.

# p = p_A, the class's true probability under noise; R its radius; all rounded to nearest
# R = sigma * Phi^-1(p) under Gaussian noise; sigma * (2 p - 1) under uniform noise, of which sigma is the scale
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from sigmax.radius._checks import noise as level_of
from sigmax.radius._checks import plain, probability, spans


def limit(sigma: ArrayLike, p: ArrayLike, noise: str = "gaussian") -> Any:
    """R, or 0 where p is at most one half: what certified radii approach with more samples and never reach."""
    share = probability(p, "p")
    score = 2 * share - 1 if noise == "uniform" else ndtri(share)
    return plain(level_of(sigma) * np.maximum(0.0, score))


def least_share(sigma: ArrayLike, radius: ArrayLike, noise: str = "gaussian") -> Any:
    """The p_A whose R is `radius` exactly: Phi(radius / sigma); 1 where none is, under uniform noise."""
    apart = spans(radius, "radius") / level_of(sigma)
    return plain(np.minimum(1.0, (1 + apart) / 2) if noise == "uniform" else ndtr(apart))


def most_missing(sigma: ArrayLike, radius: ArrayLike, noise: str = "gaussian") -> Any:
    """1 - `least_share`, exact where that would be rounded to 1."""
    apart = spans(radius, "radius") / level_of(sigma)
    return plain(np.maximum(0.0, (1 - apart) / 2) if noise == "uniform" else ndtr(-apart))


def slope(sigma: ArrayLike, p: ArrayLike) -> Any:
    """dR/dp_A = sigma / phi(Phi^-1(p)), phi the normal density; 0 where p is at most one half."""
    share = probability(p, "p")
    steep = level_of(sigma) * np.sqrt(2 * np.pi) * np.exp(ndtri(share) ** 2 / 2)
    return plain(np.where(share > 0.5, steep, 0.0))
