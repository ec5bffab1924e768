"""Training: one loop, a file for each method, and the way from a data set to a routed system.

A new method is a `Method` in a file of its own that registers it. Dual smoothing adds the router, trained on labels
(`sigmax.jobs.label`), and fine-tuning of the experts under the routed noise; `sigmax.pipeline` does all of it from one
file.
"""

from sigmax.train.choose import choose_sigmas
from sigmax.train.classifier import train_classifier
from sigmax.train.denoiser import DENOISING, Denoising, train_denoiser
from sigmax.train.finetune import FINE_TUNING, fine_tune, routes_of
from sigmax.train.loop.fit import fit
from sigmax.train.loop.noisy import noisy_copies
from sigmax.train.loop.partial import Partial
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.base import Batch, Examples, Method, Score
from sigmax.train.methods.field_noise import FieldNoise
from sigmax.train.methods.gaussian import GaussianTraining
from sigmax.train.methods.registry import make_method, register
from sigmax.train.methods.several_noises import Mixed, MixedConsistency, Routed, RoutedConsistency
from sigmax.train.router.loss import Router
from sigmax.train.router.presets import PRESETS
from sigmax.train.router.train import train_router

__all__ = [
    "DENOISING",
    "FINE_TUNING",
    "PRESETS",
    "Batch",
    "Denoising",
    "Examples",
    "FieldNoise",
    "GaussianTraining",
    "Method",
    "Mixed",
    "MixedConsistency",
    "Partial",
    "Routed",
    "RoutedConsistency",
    "Router",
    "Score",
    "Settings",
    "choose_sigmas",
    "fine_tune",
    "fit",
    "make_method",
    "noisy_copies",
    "register",
    "routes_of",
    "train_classifier",
    "train_denoiser",
    "train_router",
]
