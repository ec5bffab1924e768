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

from sigmax.models.denoisers.diffusion import Diffusion, from_diffusers, wrap
from sigmax.models.denoisers.openai import PUBLIC, Trained, from_openai
from sigmax.models.denoisers.schedule import Schedule
from sigmax.models.denoisers.sources import load

__all__ = ["PUBLIC", "Diffusion", "Schedule", "Trained", "from_diffusers", "from_openai", "load", "wrap"]
