"""Training: one loop, a file for each method, and the way from a data set to a checkpoint.

    from sigmax import data, train

    digits = data.load("digits", "train")
    train.train_classifier(digits, architecture="small-cnn", sigma=0.25, out="digits-0.25.safetensors")

A new method is a `Method` in a file of its own; the loop, the noise addresses and the exact resume are shared.
"""

from sigmax.train.classifier import train_classifier
from sigmax.train.gaussian import Gaussian, add_noise
from sigmax.train.loop import fit
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.partial import Partial
from sigmax.train.progress import EpochReport
from sigmax.train.settings import Settings

__all__ = [
    "Batch",
    "EpochReport",
    "Examples",
    "Gaussian",
    "Method",
    "Partial",
    "Score",
    "Settings",
    "add_noise",
    "fit",
    "train_classifier",
]
