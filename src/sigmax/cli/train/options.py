"""What the kinds of training share on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.models import Classifier, Denoiser

Out = Annotated[Path, typer.Option("--out", help="Checkpoint to write, NAME.safetensors.")]
WithDenoiser = Annotated[str | None, typer.Option("--denoiser", help="As of `build`: train on its images.")]
Epochs = Annotated[int | None, typer.Option(help="Passes over the training images (default: 120 or the preset's).")]
Device = Annotated[str | None, typer.Option(help="Where to train: cpu, cuda, cuda:1 ... (default: cpu).")]


def read_denoiser(source: str | None) -> "Denoiser | None":
    """The denoiser that the option names, if it does."""
    from sigmax.models import denoisers

    return None if source is None else denoisers.load(source)


def begun(start: Path | None, model: str | None, options: Mapping[str, Any], normalise: str) -> "Classifier | None":
    """The classifier to begin with; what would describe another one beside it is refused."""
    if start is None:
        return None
    if model is not None or options or normalise != "none":
        raise RequestError(f"{start} describes its network; leave out --model, options and normalise")
    from sigmax import models

    return models.load(start)[0]
