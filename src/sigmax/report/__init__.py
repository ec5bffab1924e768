"""What runs say, read from their records alone: accuracies, distributions, comparisons, figures, the report.

Every function takes a `Run` or the path of a run file. Neither torch nor matplotlib is loaded by importing this.
"""

from sigmax.report.compare.best import best_over_sigma, best_sigma, radii_by_sigma
from sigmax.report.compare.comparison import compare, scheme_table
from sigmax.report.compare.diagnosis import Diagnosis, diagnose
from sigmax.report.compare.dominance import Dominance, dominance
from sigmax.report.compare.gain import accuracy_gain
from sigmax.report.folder import write, write_scheme_table
from sigmax.report.metrics.accuracy import (
    AverageRadius,
    acr,
    average_radius,
    certified_accuracy,
    certified_curve,
    certified_interval,
    certified_share,
    sensitivity,
)
from sigmax.report.metrics.conversion import curve_to_ecdf, ecdf_to_curve, share_of_radius
from sigmax.report.metrics.distribution import ecdf, ecdf_by_class, known_from, vote_shares
from sigmax.report.metrics.implied import implied_accuracy
from sigmax.report.metrics.recertification import Recertified, plug_in, recertify, resample
from sigmax.report.metrics.routes import routing
from sigmax.report.metrics.shares import (
    answers_by_part,
    answers_by_sigma,
    class_accuracy,
    class_spread,
    outcome_shares,
    reasons,
)
from sigmax.report.plots.attack import draw_attack_ratios
from sigmax.report.plots.curves import draw, draw_ecdf, draw_ecdf_by_class, draw_samples
from sigmax.report.plots.frontier import draw_frontier
from sigmax.report.plots.routing import draw_routing
from sigmax.report.plots.sigma import draw_best_sigma, draw_envelope, draw_radius_by_sigma
from sigmax.report.plots.style import axes, save

__all__ = [
    "AverageRadius",
    "Diagnosis",
    "Dominance",
    "Recertified",
    "accuracy_gain",
    "acr",
    "answers_by_part",
    "answers_by_sigma",
    "average_radius",
    "axes",
    "best_over_sigma",
    "best_sigma",
    "certified_accuracy",
    "certified_curve",
    "certified_interval",
    "certified_share",
    "class_accuracy",
    "class_spread",
    "compare",
    "curve_to_ecdf",
    "diagnose",
    "dominance",
    "draw",
    "draw_attack_ratios",
    "draw_best_sigma",
    "draw_ecdf",
    "draw_ecdf_by_class",
    "draw_envelope",
    "draw_frontier",
    "draw_radius_by_sigma",
    "draw_routing",
    "draw_samples",
    "ecdf",
    "ecdf_by_class",
    "ecdf_to_curve",
    "implied_accuracy",
    "known_from",
    "outcome_shares",
    "plug_in",
    "radii_by_sigma",
    "reasons",
    "recertify",
    "resample",
    "routing",
    "save",
    "scheme_table",
    "sensitivity",
    "share_of_radius",
    "vote_shares",
    "write",
    "write_scheme_table",
]
