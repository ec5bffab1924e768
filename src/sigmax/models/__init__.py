"""Networks, the normalisation in front of them, and the files they are kept in.

    from sigmax import models

    model, told = models.load("digits-0.25.safetensors")
    logits = model(pixels)  # pixels in [0, 1], shaped (n, C, H, W), with noise or without

Architectures are named from a registry that users can add to in Python; no file brings code.
"""

from sigmax.models.callables import Onnx
from sigmax.models.checkpoint import Checkpoint, fingerprint, load, load_denoiser, read, save
from sigmax.models.classifier import Classifier, create, describe
from sigmax.models.denoised import Denoised
from sigmax.models.denoiser import Denoiser, create_denoiser
from sigmax.models.description import Description
from sigmax.models.halves import round_weights
from sigmax.models.imported import import_weights
from sigmax.models.normalise import PRESETS, Normalisation, Normalise, Normalised, normalisation
from sigmax.models.registry import build, build_denoiser, denoiser_names, names, register
from sigmax.models.sure import sureness
from sigmax.models.transformers import from_transformers

__all__ = [
    "PRESETS",
    "Checkpoint",
    "Classifier",
    "Denoised",
    "Denoiser",
    "Description",
    "Normalisation",
    "Normalise",
    "Normalised",
    "Onnx",
    "build",
    "build_denoiser",
    "create",
    "create_denoiser",
    "denoiser_names",
    "describe",
    "fingerprint",
    "from_transformers",
    "import_weights",
    "load",
    "load_denoiser",
    "names",
    "normalisation",
    "read",
    "register",
    "round_weights",
    "save",
    "sureness",
]
