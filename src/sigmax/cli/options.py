"""Options that several verbs share, so that they read and mean the same everywhere."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.errors import RequestError

if TYPE_CHECKING:
    import torch


class Precision(StrEnum):
    """Number format of the networks' arithmetic."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class CompileName(StrEnum):
    """How networks are compiled."""

    OFF = "off"
    DEFAULT = "default"
    GRAPHS = "graphs"
    TUNED = "tuned"
    DENOISER = "denoiser"
    AUTO = "auto"


class BoundName(StrEnum):
    """How the rival classes are bounded."""

    ONE_SIDED = "one-sided"
    RUNNER_UP = "runner-up"


class SureName(StrEnum):
    """What the sureness of a classifier does as a router."""

    NAMES = "names"
    ROUTES = "routes"


class RuleName(StrEnum):
    """How a dual system combines router and experts."""

    CONSENSUS = "consensus"
    MIN = "min"


class StoreName(StrEnum):
    """How a system's weights are kept."""

    FP32 = "fp32"
    BF16 = "bf16"


class SamplingName(StrEnum):
    """When a certification may stop drawing."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"


SOURCES = "digits, mnist:PATH, fashion:PATH, cifar10:PATH, npz:FILE or folder:PATH"

System = Annotated[
    str, typer.Argument(help="The system's folder, as written by `sigmax build`; or zoo:NAME, hub:OWNER/NAME.")
]
Data = Annotated[str, typer.Option("--data", help=f"Where the images are: {SOURCES}.")]
Split = Annotated[str, typer.Option(help="Which part of the data: train or test.")]
ImageSize = Annotated[
    int | None, typer.Option(help="For image folders: resize and crop to this many pixels a side.")
]
Start = Annotated[int, typer.Option(help="Index of the first input.")]
Skip = Annotated[int, typer.Option(help="Take every SKIP-th input.")]
Maximum = Annotated[
    int | None, typer.Option("--max", help="Take at most this many inputs, counted after skipping.")
]
Alpha = Annotated[float, typer.Option(help="Chance that a certificate or prediction is wrong.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise; the same seed gives the same votes.")]
Batch = Annotated[
    int | None,
    typer.Option(help="Noisy inputs a forward pass (default: 128 to 1024 on CPU, by image size; 4096 on GPU)."),
]
Device = Annotated[str | None, typer.Option(help="Where the networks run: cpu, cuda, cuda:1 ... (default: cpu).")]
Dtype = Annotated[Precision, typer.Option(help="Precision of the networks' arithmetic.")]
Compile = Annotated[
    CompileName,
    typer.Option(
        "--compile",
        help="Compile the networks: default, graphs (CUDA graphs), tuned (minutes of trying, the fastest kernels), "
        "denoiser (that part alone), or auto: try all of them once, with batch sizes, and remember what won.",
    ),
]
Sampling = Annotated[
    SamplingName, typer.Option(help="fixed: exactly N draws a stage; adaptive: no more than can change the answer.")
]
Targets = Annotated[
    str | None,
    typer.Option(help="Adaptive: ask only which of these radii hold, such as 0.25,0.5,1 (far fewer draws)."),
]
Tolerance = Annotated[
    float | None, typer.Option(help="Adaptive: stop when the radius could grow by this share of sigma at most.")
]
Store = Annotated[
    StoreName,
    typer.Option(help="bf16: weights are rounded to it and kept so, in half the room; the result is the system."),
]
RunOut = Annotated[Path, typer.Option("--out", help="Run file to write, or to go on with.")]


def radii(listed: str | None) -> list[float] | None:
    """Radii from text such as 0.25,0.5,1."""
    return None if listed is None else numbers(listed, "--targets", "radii such as 0.25,0.5,1")


def numbers(listed: str, option: str, expected: str) -> list[float]:
    """Numbers from text such as 0.25,0.5,1."""
    try:
        return [float(part) for part in listed.replace(",", " ").split()]
    except ValueError as error:
        raise RequestError(f"{option} must be {expected}; got {listed!r}") from error


def torch_dtype(precision: Precision) -> "torch.dtype":
    """The torch dtype of a precision's short name."""
    import torch

    return {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}[precision]
