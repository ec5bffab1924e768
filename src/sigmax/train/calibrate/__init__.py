"""Calibrate a cascade: the confidence thresholds of its levels, chosen on images that nobody was trained on.

A threshold trades accuracy at small radii for large ones, and trains nothing. All of them are chosen together, for one
objective (`CalibrateOptions`). What the networks answer to noisy copies of the held-out images is asked once; estimates
and searches over it are cheap. A deterministic last certifies the images themselves, so nothing is estimated of it.
"""

from sigmax.train.calibrate.answers import Answers, Certain, answers_of, kept_answers
from sigmax.train.calibrate.calibrate import (
    Calibrated,
    chosen,
    estimated,
    read_thresholds,
    with_confidence,
    write_thresholds,
)
from sigmax.train.calibrate.estimate import Estimate
from sigmax.train.calibrate.frontier import Frontier, frontier, write_frontier
from sigmax.train.calibrate.options import CalibrateOptions

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
