"""Denoisers: networks that take the noise off an image before a classifier sees it.

    from sigmax import models
    from sigmax.models import denoisers

    models.load_denoiser("nets/denoiser.safetensors")  # trained by `sigmax train denoiser`
    denoisers.from_diffusers("owner/name")  # a folder or the hub's name
    denoisers.from_openai("cifar10_uncond_50M_500K.pt", "cifar10")
    denoisers.wrap(unet, denoisers.Schedule.cosine())  # a diffusers UNet2DModel in hand
    denoisers.load("openai-cifar10:cifar10_uncond_50M_500K.pt")  # any of the first three by one text

All of them can be saved in a system's folder. Any other network, or function, goes into `sx.Denoised` as it is.
"""

from pathlib import Path

from sigmax.errors import RequestError
from sigmax.models.checkpoints.checkpoint import load_denoiser
from sigmax.models.classifier import Denoiser
from sigmax.models.denoisers.diffusion import Diffusion, from_diffusers, wrap
from sigmax.models.denoisers.openai import PUBLIC, Trained, from_openai
from sigmax.models.denoisers.schedule import Schedule

__all__ = ["PUBLIC", "Diffusion", "Schedule", "Trained", "from_diffusers", "from_openai", "load", "wrap"]

OPENAI = "openai-"
KNOWN = ", ".join(
    ["NAME.safetensors", "diffusers:FOLDER", "diffusers:OWNER/NAME", *(f"{OPENAI}{n}:FILE" for n in PUBLIC)]
)


def load(source: str | Path) -> Denoiser:
    """The denoiser of a checkpoint, of a diffusers folder or repository, or of a public OpenAI checkpoint."""
    kind, colon, rest = str(source).partition(":")
    if not colon or Path(source).is_file():
        return load_denoiser(source)
    if kind == "diffusers":
        return from_diffusers(rest)
    if kind.startswith(OPENAI):
        return from_openai(rest, kind.removeprefix(OPENAI))
    raise RequestError(f"a denoiser is one of {KNOWN}; got {source}")
