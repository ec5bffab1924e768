"""`sigmax build cascade`, and `multiscale`, the cascade of noise levels of Jeong & Shin (2024)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.build import networks as shared
from sigmax.cli.progress import warn_of_noise
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.schemes.scheme import Scheme
    from sigmax.schemes.smoothed import Smoothed

OTHERS = (*(ending for ending in shared.WEIGHTS if ending != ".safetensors"), ".onnx", ".pt2")


def cascade(
    parts: Annotated[
        list[str],
        typer.Argument(metavar="LEVEL... LAST", help="The levels' checkpoints; then a system, or one more checkpoint."),
    ],
    out: shared.SystemOut,
    sigma: Annotated[
        str | None,
        typer.Option(metavar="NOISE", help="Of each level: 1.0,0.5, or uniform:1.0,0.5 (default: as trained)."),
    ] = None,
    confidence: Annotated[
        str, typer.Option(help="Softmax confidence below which a level's votes defer (0: never): one, or one for each.")
    ] = "0",
    threshold: Annotated[str, typer.Option(help="p_A, from 0.5, above which a level answers: one, or all.")] = "0.5",
    grid: shared.Grid = None,
    denoiser: shared.Denoiser = None,
    store: opt.Store = "fp32",
) -> None:
    """Try levels in order: each answers where one class has enough votes, and defers to the next elsewhere.

    Example: `sigmax build cascade one.safetensors half.safetensors systems/quarter --confidence 0.6,0.5 --out cascade`
    """
    from sigmax.schemes.cascade import Cascade

    *levels, last = parts
    count = len(levels)
    if not levels:
        raise RequestError("a cascade needs at least one level before its last; name the levels' checkpoints first")
    noise, listed = opt.noise(sigma)
    sigmas = [None] * count if listed is None else _each(listed, count, "--sigma", "noise levels such as 1.0,0.5")
    confidences = _each(confidence, count, "--confidence", "numbers from 0 to below 1, such as 0.6 or 0.6,0.5")
    thresholds = _each(threshold, count, "--threshold", "numbers from 0.5 to below 1")
    final = _last(last, denoiser, grid)
    tried = [
        _level(Path(path), noise, at, least, denoiser, [final], grid=grid)
        for path, at, least in zip(levels, sigmas, confidences, strict=True)
    ]
    shared.conclude(Cascade(tried, last=final, thresholds=thresholds), out, store=store)


def multiscale(
    networks: Annotated[list[Path], typer.Argument(metavar="NETWORK...", help="One for all levels, or one for each.")],
    sigmas: Annotated[str, typer.Option(metavar="NOISE", help="Rising levels, as 0.25,0.5,1; uniform:0.5,1 for l1.")],
    out: shared.SystemOut,
    threshold: Annotated[str, typer.Option(help="p_A, from 0.5, above which a level answers: one, or all.")] = "0.5",
    grid: shared.Grid = None,
    denoiser: shared.Denoiser = None,
    store: opt.Store = "fp32",
) -> None:
    """Try noise levels from the largest to the smallest; the first with a clear majority answers.

    Example: `sigmax build multiscale net.safetensors --sigmas 0.25,0.5,1 --out systems/multiscale`
    """
    from sigmax.noise import Uniform
    from sigmax.schemes.cascade import Multiscale

    noise, listed = opt.noise(sigmas, "--sigmas")
    levels = opt.numbers(str(listed), "--sigmas", "noise levels such as 0.25,0.5,1")
    marks = opt.numbers(threshold, "--threshold", "numbers from 0.5 to below 1, such as 0.5 or 0.5,0.6")
    for level in levels if noise == "gaussian" else ():
        warn_of_noise(level)
    models, described = zip(*(shared.base_network(path, denoiser) for path in networks), strict=True)
    scheme = Multiscale(
        models[0] if len(models) == 1 else list(models),
        sigmas=levels,
        noise=Uniform if noise == "uniform" else None,
        classes=described[0].classes,
        thresholds=marks[0] if len(marks) == 1 else marks,
        **({} if grid is None else {"grid": grid}),
    )
    shared.conclude(scheme, out, store=store)


def _each(listed: str, count: int, option: str, expected: str) -> list[float]:
    """A number for each of the levels; one alone is all levels'."""
    found = opt.numbers(listed, option, expected)
    if len(found) not in (1, count):
        raise RequestError(f"{option} must be one number, or one for each of the {count} levels; got {len(found)}")
    return found if len(found) == count else found * count


def _level(
    path: Path,
    noise: str | None,
    level: float | None,
    confidence: float,
    denoiser: str | None,
    others: "Sequence[Scheme]",
    *,
    grid: int | None,
) -> "Smoothed":
    from sigmax.models import selective
    from sigmax.schemes.smoothed import Smoothed

    if path.is_dir():
        raise RequestError(
            f"{path} is a folder, and a level is a checkpoint, such as NAME.safetensors: only the last may be a system"
        )
    _check_checkpoint(path)
    model, description = shared.base_network(path, denoiser, others)
    own = shared.noise_of(path, description, noise, level, grid=grid)
    base = selective(model, confidence=confidence) if confidence else model
    return Smoothed(base, noise=own, classes=description.classes)


def _check_checkpoint(path: Path) -> None:
    if path.is_file() and path.suffix in OTHERS:
        raise RequestError(
            f"{path} cannot be used here: levels are checkpoints that sigmax trained or imported, NAME.safetensors. "
            "Build a cascade of other files in Python: sx.models.open_program, sx.models.selective over a network that "
            "defers, and sx.Cascade([sx.Smoothed(...), ...], last=...).save(FOLDER)"
        )


def _last(source: str, denoiser: str | None, grid: int | None) -> "Scheme":
    """The system of a folder, or a checkpoint's network under the noise it was trained with."""
    from sigmax import systems

    if Path(source).suffix == ".safetensors":
        split = shared.trained_split(Path(source))
        return split if split is not None else _level(Path(source), None, None, 0.0, denoiser, [], grid=grid)
    _check_checkpoint(Path(source))
    return systems.load(source)
