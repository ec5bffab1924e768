"""Calibrate a cascade: the confidence thresholds of its levels, chosen on images that nobody was trained on.

# level j answers on a noisy copy where its softmax confidence is at least c_j, else it defers
# A(r) certified accuracy at radius r in %; P(r) a published one; E(r) that of the best network alone at each radius

A threshold trades accuracy at small radii for large ones, and trains nothing. All of them are chosen together, for the
largest least lead min_r (A(r) - P(r)), the largest least ratio min_r A(r) / E(r), or the largest mean of A. What the
networks answer to noisy copies of the held-out images is asked once; estimates and searches over it are cheap. A
deterministic last certifies the images themselves, so nothing is estimated of it.
"""

from sigmax.train.calibrate.answers import Answers, Certain, answers_of, kept_answers
from sigmax.train.calibrate.calibrate import chosen, estimated, with_confidence
from sigmax.train.calibrate.estimate import Estimate
from sigmax.train.calibrate.frontier import Frontier, frontier, write_frontier
from sigmax.train.calibrate.options import CalibrateOptions
from sigmax.train.calibrate.thresholds import Calibrated, read_thresholds, write_thresholds

__all__ = [
    "Answers",
    "CalibrateOptions",
    "Calibrated",
    "Certain",
    "Estimate",
    "Frontier",
    "answers_of",
    "chosen",
    "estimated",
    "frontier",
    "kept_answers",
    "read_thresholds",
    "with_confidence",
    "write_frontier",
    "write_thresholds",
]
