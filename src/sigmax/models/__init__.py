"""Networks, the normalisation in front of them, and the files they are kept in.

    from sigmax import models

    model, told = models.load("digits-0.25.safetensors")
    logits = model(pixels)  # pixels in [0, 1], shaped (n, C, H, W), with noise or without

Architectures are named from a registry that users can add to in Python; no file brings code.
"""

from sigmax.models.checkpoint import Checkpoint, fingerprint, load, read, save
from sigmax.models.classifier import Classifier, create, describe
from sigmax.models.description import Description
from sigmax.models.imported import import_weights
from sigmax.models.normalise import PRESETS, Normalisation, Normalise, Normalised, normalisation
from sigmax.models.registry import build, names, register

__all__ = [
    "PRESETS",
    "Checkpoint",
    "Classifier",
    "Description",
    "Normalisation",
    "Normalise",
    "Normalised",
    "build",
    "create",
    "describe",
    "fingerprint",
    "import_weights",
    "load",
    "names",
    "normalisation",
    "read",
    "register",
    "save",
]
