"""What runs say, read from their records alone: accuracies, distributions, comparisons, figures, the report.

Every function takes a `Run` or the path of a run file. Neither torch nor matplotlib is loaded by importing this.
"""

from sigmax.report.accuracy import acr, certified_accuracy, certified_curve, certified_interval
from sigmax.report.average import AverageRadius, average_radius, sensitivity
from sigmax.report.best import best_over_sigma, best_sigma, radii_by_sigma
from sigmax.report.comparison import compare
from sigmax.report.conversion import curve_to_ecdf, ecdf_to_curve, radius_of_share, share_of_radius
from sigmax.report.diagnosis import Diagnosis, diagnose
from sigmax.report.distribution import ecdf, ecdf_by_class, known_from, vote_shares
from sigmax.report.distribution_plot import draw_ecdf, draw_ecdf_by_class
from sigmax.report.dominance import Dominance, dominance
from sigmax.report.draws_plot import draw_draws
from sigmax.report.fairness import class_accuracy, class_spread
from sigmax.report.figures import axes, save
from sigmax.report.folder import write
from sigmax.report.gain import accuracy_gain
from sigmax.report.plot import draw
from sigmax.report.recertification import plug_in, recertify, resample
from sigmax.report.recertified import Recertified
from sigmax.report.references import envelope, oracle_radii
from sigmax.report.routes import routing
from sigmax.report.routing_plot import draw_routing
from sigmax.report.scheme_table import scheme_table, write_scheme_table
from sigmax.report.shares import answers_by_sigma, outcome_shares, reasons
from sigmax.report.sigma_plot import draw_best_sigma, draw_envelope, draw_radius_by_sigma

__all__ = [
    "AverageRadius",
    "Diagnosis",
    "Dominance",
    "Recertified",
    "accuracy_gain",
    "acr",
    "answers_by_sigma",
    "average_radius",
    "axes",
    "best_over_sigma",
    "best_sigma",
    "certified_accuracy",
    "certified_curve",
    "certified_interval",
    "class_accuracy",
    "class_spread",
    "compare",
    "curve_to_ecdf",
    "diagnose",
    "dominance",
    "draw",
    "draw_best_sigma",
    "draw_draws",
    "draw_ecdf",
    "draw_ecdf_by_class",
    "draw_envelope",
    "draw_radius_by_sigma",
    "draw_routing",
    "ecdf",
    "ecdf_by_class",
    "ecdf_to_curve",
    "envelope",
    "known_from",
    "oracle_radii",
    "outcome_shares",
    "plug_in",
    "radii_by_sigma",
    "radius_of_share",
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
