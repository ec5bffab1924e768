"""Training: one loop, a file for each method, and the way from a data set to a routed system.

    from sigmax import data, train

    digits = data.load("digits", "train")
    train.train_classifier(digits, architecture="small-cnn", sigma=0.25, out="digits-0.25.safetensors")

A new method is a `Method` in a file of its own; the loop, the noise addresses and the exact resume are shared.
Dual smoothing adds labels (how far each expert certifies each input), the router trained on them, fine-tuning of
the experts under the routed noise, and a pipeline that does all of it from one file.
"""

from sigmax.train.choose import Choice, choose_sigmas
from sigmax.train.classifier import train_classifier
from sigmax.train.denoiser import DENOISING, Denoising, train_denoiser
from sigmax.train.field_noise import FieldNoise
from sigmax.train.finetune import FINE_TUNING, Mixed, Routed, RoutedConsistency, fine_tune, routes_of
from sigmax.train.gaussian import Gaussian, add_noise
from sigmax.train.labels import Labels, make_labels, read_labels
from sigmax.train.loop import fit
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.partial import Partial
from sigmax.train.pipeline import Phase, Pipeline
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.progress import EpochReport
from sigmax.train.router import train_router
from sigmax.train.router_loss import Router
from sigmax.train.router_objective import Certified, Weighted
from sigmax.train.router_presets import PRESETS, router_preset
from sigmax.train.settings import Settings

__all__ = [
    "DENOISING",
    "FINE_TUNING",
    "PRESETS",
    "Batch",
    "Certified",
    "Choice",
    "Denoising",
    "EpochReport",
    "Examples",
    "FieldNoise",
    "Gaussian",
    "Labels",
    "Method",
    "Mixed",
    "Partial",
    "Phase",
    "Pipeline",
    "PipelineConfig",
    "Routed",
    "RoutedConsistency",
    "Router",
    "Score",
    "Settings",
    "Weighted",
    "add_noise",
    "choose_sigmas",
    "fine_tune",
    "fit",
    "make_labels",
    "read_labels",
    "router_preset",
    "routes_of",
    "train_classifier",
    "train_denoiser",
    "train_router",
]
