"""What the kinds of training share on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.models import Classifier, Denoiser
    from sigmax.train.progress import EpochReport

Out = Annotated[Path, typer.Option("--out", help="Checkpoint to write, NAME.safetensors.")]
Width = Annotated[int | None, typer.Option(help="Channels of small-cnn or resnet18 (default: the model's).")]
Normalise = Annotated[str, typer.Option(help="none, cifar10 or imagenet mean and std, kept in the model.")]
Clip = Annotated[float | None, typer.Option(help="Largest norm of a step's gradient; 0: no limit.")]
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


def begun(start: Path | None, model: str | None, width: int | None, normalise: str) -> "Classifier | None":
    """The classifier to begin with; what would describe another one beside it is refused."""
    if start is None:
        return None
    if model is not None or width is not None or normalise != "none":
        raise RequestError(f"{start} says which model it is; leave out --model, --width and --normalise")
    from sigmax import models

    return models.load(start)[0]


def last_report(out: Path) -> "EpochReport | None":
    """What the last epoch of the run that made `out` came to."""
    from sigmax.train.network import metrics_path
    from sigmax.train.progress import last_epoch

    return last_epoch(metrics_path(out))
