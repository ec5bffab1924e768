"""Denoisers by one text each, as the command line names them."""

from pathlib import Path

from sigmax.errors import RequestError
from sigmax.models.checkpoints.checkpoint import load_denoiser
from sigmax.models.denoiser import Denoiser
from sigmax.models.denoisers.diffusion import from_diffusers
from sigmax.models.denoisers.openai import PUBLIC, from_openai

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
