"""The radius of a classifier smoothed with one noise distribution."""

# L <= p_A and p_B <= U for every other class B; z_c the score of class c

from sigmax.radius.noise import Noise


def smoothed(noise: Noise, lower: float, upper: float | None = None) -> float:
    """Radius within which no other class overtakes A: (z_A - z_B) / 2, rounded down, or 0.

    Without `upper` every other class has at most 1 - L. With it L may lie below 1/2.
    Needs: the same noise at every input; p_A >= lower, and p_B <= upper for every other class. If the bounds hold
    together with probability 1 - alpha, so does the radius.
    Proof: each score moves by at most the distance, so A leads as long as twice the distance is below z_A - z_B.
    Source: Cohen et al. (2019), Theorem 1, for Gaussian noise.
    """
    return noise.lead(lower, upper) / 2
