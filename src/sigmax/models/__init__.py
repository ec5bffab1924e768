"""Networks, the normalisation in front of them, and the files they are stored in.

Architectures are named from a registry that users can add to in Python; no file brings code. A model takes pixels in
[0, 1], shaped (n, C, H, W), with noise or without.
"""

from sigmax.models.adapters.callables import Onnx
from sigmax.models.adapters.programs import Program, from_code, open_program
from sigmax.models.adapters.transformers import from_transformers
from sigmax.models.architectures.registry import build, names, register
from sigmax.models.checkpoints.bfloat16 import round_weights
from sigmax.models.checkpoints.checkpoint import fingerprint, load, load_denoiser, read, save
from sigmax.models.checkpoints.description import Description
from sigmax.models.checkpoints.imported import import_weights
from sigmax.models.classifier import Classifier, Denoiser, create, create_denoiser, describe
from sigmax.models.denoised import Denoised
from sigmax.models.normalise import PRESETS, Normalisation, Normalise, Normalised, normalisation
from sigmax.models.selective import Selective, selective

__all__ = [
    "PRESETS",
    "Classifier",
    "Denoised",
    "Denoiser",
    "Description",
    "Normalisation",
    "Normalise",
    "Normalised",
    "Onnx",
    "Program",
    "Selective",
    "build",
    "create",
    "create_denoiser",
    "describe",
    "fingerprint",
    "from_code",
    "from_transformers",
    "import_weights",
    "load",
    "load_denoiser",
    "names",
    "normalisation",
    "open_program",
    "read",
    "register",
    "round_weights",
    "save",
    "selective",
]
