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

System = Annotated[str, typer.Argument(metavar="SYSTEM", help="A folder of `build`, zoo:NAME or hub:OWNER/NAME.")]
Data = Annotated[str, typer.Option("--data", help=f"Where the images are: {SOURCES}.")]
Split = Annotated[str, typer.Option(help="Which part of the data: train or test.")]
ImageSize = Annotated[int | None, typer.Option(help="For image folders: resize and crop to this many pixels a side.")]
Start = Annotated[int, typer.Option(help="Index of the first input.")]
Skip = Annotated[int, typer.Option(help="Take every SKIP-th input.")]
Maximum = Annotated[int | None, typer.Option("--max", help="Take at most this many inputs, counted after skipping.")]
Alpha = Annotated[float, typer.Option(help="Chance that a certificate or prediction is wrong.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise; the same seed gives the same votes.")]
Batch = Annotated[
    int | None, typer.Option(help="Noisy inputs a forward pass (default: 8 a thread to 1024 on CPU; 4096 on GPU).")
]
Device = Annotated[str | None, typer.Option(help="Where the networks run: cpu, cuda, cuda:1 ... (default: cpu).")]
Dtype = Annotated[Precision, typer.Option(help="Precision of the networks' arithmetic.")]
Compile = Annotated[
    CompileName,
    typer.Option(
        "--compile",
        help="default, graphs (of CUDA), tuned (takes minutes), denoiser (alone), or auto: what is fastest.",
    ),
]
Sampling = Annotated[Literal["fixed", "adaptive"], typer.Option(help="N samples a stage, or no more than matter.")]
Targets = Annotated[str | None, typer.Option(help="Adaptive: ask only which of these radii hold, as 0.25,0.5,1.")]
Tolerance = Annotated[
    float | None, typer.Option(help="Adaptive: stop once the radius is known to within this share of sigma.")
]
Store = Annotated[Literal["fp32", "bf16"], typer.Option(help="bf16: round the weights and store them so.")]
Code = Annotated[
    list[str] | None,
    typer.Option(metavar="PACKAGE.MODULE:FUNCTION", help="Import and RUN this code, which the system names."),
]
Workers = Annotated[int | None, typer.Option(help="Processes that share the work (default: this one; on Ray: all).")]
GpusPerWorker = Annotated[float | None, typer.Option(help="GPUs of a worker: 1, or 0.5 to put two on one.")]
On = Annotated[str, typer.Option("--on", metavar="BACKEND", help="Where workers run: local, ray or ray:ADDRESS.")]
RunOut = Annotated[Path, typer.Option("--out", help="Run file to write, or to continue.")]


Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another option: see --keys.")]


FileChanges = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE over the file's; KEY= leaves it out.")]


def keys(source: str) -> Any:
    """The option `--keys`; source: "module:name" of a model, or of a function that returns Markdown tables by title."""

    def show(asked: bool) -> None:
        if not asked:
            return
        from rich.markdown import Markdown

        from sigmax.cli.progress import console
        from sigmax.config.tables import markdown

        module, _, name = source.partition(":")
        found = getattr(import_module(module), name)
        for title, table in ({"Keys of --set": markdown(found)} if isinstance(found, type) else found()).items():
            console.print(Markdown(f"{title}\n\n{table}"))
        raise typer.Exit

    return typer.Option("--keys", help="List the keys of --set and end.", callback=show, is_eager=True)


def noise(text: str | None, option: str = "--sigma", kinds: Sequence[str] = KINDS) -> tuple[str | None, str | None]:
    """Distribution and level, as text, of noise such as 0.5 (Gaussian) or uniform:0.5,1; else None."""
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
