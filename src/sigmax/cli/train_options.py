"""What the kinds of training share on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sigmax.models import Denoiser
    from sigmax.train.progress import EpochReport

Out = Annotated[Path, typer.Option("--out", help="Checkpoint to write, NAME.safetensors.")]
Width = Annotated[int | None, typer.Option(help="Channels of small-cnn or resnet18 (default: the model's).")]
Normalise = Annotated[str, typer.Option(help="none, cifar10 or imagenet mean and std, kept in the model.")]
Seed = Annotated[int, typer.Option(help="Seed of weights, order and noise.")]
BehindDenoiser = Annotated[
    str | None, typer.Option("--denoiser", help="A denoiser, as of `build`: train on images denoised by it.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")]


def given(told: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to the preset or the defaults."""
    return {name: value for name, value in told.items() if value is not None}


def options(width: int | None) -> dict[str, int]:
    """The architecture's options."""
    return {} if width is None else {"width": width}


def read_denoiser(source: str | None) -> "Denoiser | None":
    """The denoiser that the option names, if it does."""
    from sigmax.models import denoisers

    return None if source is None else denoisers.load(source)


def last_report(out: Path) -> "EpochReport | None":
    """What the last epoch of the run that made `out` came to."""
    from sigmax.train.network import metrics_path
    from sigmax.train.progress import last_epoch

    return last_epoch(metrics_path(out))
