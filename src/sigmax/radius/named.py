"""The radius of a router that names a class or passes the input to an expert."""

# q_c the router's share of votes for class c; L <= q_A; U >= q_c of every class c but A; below: how far the expert
# certifies A, 0 where it certifies another class or none

from functools import lru_cache

from sigmax.errors import RequestError
from sigmax.radius._checks import distances
from sigmax.radius.cascade import cascade

cache = lru_cache(maxsize=2**14)  # the same few bounds are asked for again and again while votes come in


def named(sigma: float, lower: float, upper: float = 1.0, below: float = 0.0) -> float:
    """Radius within which the answer is A, named by the router or left to an expert that says A; rounded down or 0.

    A class is named where it has more than half of the votes, and everywhere else the expert answers. The radius is

        max( sigma * Phi^-1(L),  min( -sigma * Phi^-1(U), below ) )

    Needs: the same sigma at every input; q_A >= lower, and q_c <= upper for every other class c; an expert that is
    of class A within `below`. If these hold together with probability 1 - alpha, so does the radius.
    Proof: sigma * Phi^-1(q_c) is 1-Lipschitz in the input. At a distance below the first term q_A is still above
    1/2, so A is named. At a distance below the second no other class is above 1/2: A is named or none is, and then
    the expert answers, which is A there. So a router torn between naming A and passing loses nothing.
    Source: `cascade` at thresholds of 1/2, with votes for no class; Lipschitz: Salman et al. (2019), App. A.
    """
    (own,) = distances([below], "below")
    return max(_kept(sigma, lower), min(kept_out(sigma, upper), float(own)))


@cache
def _kept(sigma: float, lower: float) -> float:
    return cascade([sigma], lower)


@cache
def kept_out(sigma: float, upper: float) -> float:
    """Radius within which no class whose share here is at most `upper` has more than half of the votes, or 0."""
    if not 0 <= upper <= 1:
        raise RequestError(f"expected upper to be a share of votes from 0 to 1, got {upper!r}")
    # A certain class at a scale behind it, so that nothing but this bound limits the radius.
    return cascade([sigma, sigma], 1.0, [upper])
