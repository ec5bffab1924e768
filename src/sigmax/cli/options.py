"""Options that several verbs share, so that they read and mean the same everywhere."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sigmax.errors import RequestError

Precision = Literal["fp32", "bf16", "fp16"]
CompileName = Literal["off", "default", "graphs", "tuned", "denoiser", "auto"]

SOURCES = (
    "cifar10:PATH, cifar100:PATH, digits, fashion:PATH, folder:PATH, mnist:PATH, npz:PATH"  # and what packages add
)

KINDS = ("gaussian", "uniform")  # of noise that a system may vote under; a number alone is Gaussian
UNIFORM = "uniform:0.5 is uniform noise of scale 0.5, for radii in l1"

System = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM", help="The system's folder, as written by `sigmax build`; or zoo:NAME, hub:OWNER/NAME."
    ),
]
Data = Annotated[str, typer.Option("--data", help=f"Where the images are: {SOURCES}.")]
Split = Annotated[str, typer.Option(help="Which part of the data: train or test.")]
ImageSize = Annotated[int | None, typer.Option(help="For image folders: resize and crop to this many pixels a side.")]
Start = Annotated[int, typer.Option(help="Index of the first input.")]
Skip = Annotated[int, typer.Option(help="Take every SKIP-th input.")]
Maximum = Annotated[int | None, typer.Option("--max", help="Take at most this many inputs, counted after skipping.")]
Alpha = Annotated[float, typer.Option(help="Chance that a certificate or prediction is wrong.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise; the same seed gives the same votes.")]
Batch = Annotated[
    int | None,
    typer.Option(help="Noisy inputs a forward pass (default: 8 a thread to 1024 on CPU, by image size; 4096 on GPU)."),
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
    Literal["fixed", "adaptive"],
    typer.Option(help="fixed: exactly N samples a stage; adaptive: no more than can change the answer."),
]
Targets = Annotated[
    str | None,
    typer.Option(help="Adaptive: ask only which of these radii hold, such as 0.25,0.5,1 (far fewer samples)."),
]
Tolerance = Annotated[
    float | None, typer.Option(help="Adaptive: stop when the radius could grow by this share of sigma at most.")
]
Store = Annotated[
    Literal["fp32", "bf16"],
    typer.Option(
        help="bf16: round the weights to bfloat16 and store them so, in half the space. The rounded weights are what "
        "is certified."
    ),
]
Code = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PACKAGE.MODULE:FUNCTION",
        help="Import and RUN this code, which the system names as the maker of its network; nothing else is run.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes that share the work (default: this one alone; on Ray: as many as have room)."),
]
GpusPerWorker = Annotated[
    float | None, typer.Option(help="GPUs of a worker: 1 (default on GPUs), or a share such as 0.5 to put two on one.")
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="BACKEND",
        help="Where workers run: local, ray:ADDRESS of a cluster, or ray (RAY_ADDRESS, else a cluster started here).",
    ),
]
RunOut = Annotated[Path, typer.Option("--out", help="Run file to write, or to continue.")]


Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other option by its key; repeat for more. --keys lists them."),
]


def keys(source: str) -> Any:
    """The option `--keys`, which lists what `--set` can change.

    source: "module:name" of the model, or of a function that returns models by the titles to print above them. It is
    imported when the option is used.
    """

    def show(asked: bool) -> None:
        if not asked:
            return
        from rich.markdown import Markdown

        from sigmax.cli.progress import console
        from sigmax.config.tables import markdown

        module, _, name = source.partition(":")
        found = getattr(import_module(module), name)
        for title, model in ({"Keys of --set": found} if isinstance(found, type) else found()).items():
            console.print(Markdown(f"{title}\n\n{markdown(model)}"))
        raise typer.Exit

    return typer.Option("--keys", help="List the keys of --set and end.", callback=show, is_eager=True)


def noise(text: str | None, option: str = "--sigma", kinds: Sequence[str] = KINDS) -> tuple[str | None, str | None]:
    """Distribution and level of noise such as 0.5 (Gaussian), or uniform:0.5; None where it is not given.

    The level is text, since some options list several: uniform:0.5,1.
    """
    if text is None:
        return None, None
    name, colon, rest = text.partition(":")
    kind, asked = (name.strip(), rest) if colon else ("gaussian", text)
    if kind not in kinds or not asked.strip():
        others = " or ".join(f"{other}:0.5" for other in kinds if other != "gaussian")
        raise RequestError(f"{option} must be a noise such as 0.5 (Gaussian), {others}; got {text!r}")
    return kind, asked


def level(text: str | None, option: str = "--sigma", kinds: Sequence[str] = KINDS) -> tuple[str | None, float | None]:
    """The same with the level as a number."""
    kind, asked = noise(text, option, kinds)
    return kind, None if asked is None else numbers(asked, option, "one noise level such as 0.5")[0]


def numbers(listed: str, option: str, expected: str) -> list[float]:
    """Numbers from text such as 0.25,0.5,1."""
    try:
        return [float(part) for part in listed.replace(",", " ").split()]
    except ValueError as error:
        raise RequestError(f"{option} must be {expected}; got {listed!r}") from error


def radii(listed: str | None, option: str = "--targets") -> list[float] | None:
    """Radii from text such as 0.25,0.5,1."""
    return None if listed is None else numbers(listed, option, "radii such as 0.25,0.5,1")
