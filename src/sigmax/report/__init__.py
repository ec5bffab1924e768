"""What runs say, read from their records alone: accuracies, curves, comparisons and the folder that shows them.

Every function takes a `Run` or the path of a run file. Neither torch nor matplotlib is loaded by importing this.
"""

from sigmax.report.accuracy import acr, certified_accuracy, certified_curve
from sigmax.report.comparison import compare
from sigmax.report.diagnosis import Diagnosis, diagnose
from sigmax.report.folder import write
from sigmax.report.plot import draw
from sigmax.report.references import envelope, oracle_radii
from sigmax.report.routes import routing
from sigmax.report.routing_plot import draw_routing

__all__ = [
    "Diagnosis",
    "acr",
    "certified_accuracy",
    "certified_curve",
    "compare",
    "diagnose",
    "draw",
    "draw_routing",
    "envelope",
    "oracle_radii",
    "routing",
    "write",
]
