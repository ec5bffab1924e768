"""From counts to confidence bounds: what n votes prove about a probability, and what the proof may cost.

`lower` and `upper` hold for a number of samples fixed beforehand, `betting_lower` for all of them together;
`Budget` keeps the chances of error of one claim within its alpha. Needs no torch: nor does checking a proof.
"""

from sigmax.bounds.anytime import betting_lower
from sigmax.bounds.budget import Budget, Spent
from sigmax.bounds.fixed import fewest_samples, fewest_samples_to_predict, lower, two_sided_p_value, upper

__all__ = [
    "Budget",
    "Spent",
    "betting_lower",
    "fewest_samples",
    "fewest_samples_to_predict",
    "lower",
    "two_sided_p_value",
    "upper",
]
