"""`sigmax build memorized`: noise chosen for each input, sound through a memory."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.build_parts import Denoiser, base_network
from sigmax.cli.progress import say, warn_of_noise


class SearchName(StrEnum):
    """How an input's noise is found."""

    ASCENT = "ascent"
    SIGNS = "signs"
    GRID = "grid"


def memorized(
    network: Annotated[Path, typer.Argument(help="A checkpoint: .safetensors of sigmax.")],
    sigma0: Annotated[float, typer.Option(help="Noise that the search begins with.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the system to.")],
    least: Annotated[float | None, typer.Option(help="Least noise (default: half of SIGMA0).")] = None,
    most: Annotated[float | None, typer.Option(help="Most noise (default: twice SIGMA0).")] = None,
    search: Annotated[
        SearchName,
        typer.Option(help="ascent: gradient steps; signs: from several starts; grid: the best of STEPS."),
    ] = SearchName.ASCENT,
    steps: Annotated[int, typer.Option(help="Steps of the search.")] = 50,
    noises: Annotated[int, typer.Option(help="Noises a step.")] = 8,
    step: Annotated[float, typer.Option(help="Length of a gradient step.")] = 0.02,
    denoiser: Denoiser = None,
) -> None:
    """Certify each input at the noise that suits it; certificates hold within the run's memory.

    Example: `sigmax build memorized net.safetensors --sigma0 0.25 --out systems/memorized`
    """
    from sigmax.certify.memorized import Memorized

    warn_of_noise(sigma0)
    model, classes = base_network(network, denoiser)
    scheme = Memorized(
        model,
        sigma0=sigma0,
        classes=classes,
        least=least,
        most=most,
        search=search.value,
        steps=steps,
        noises=noises,
        step=step,
    )
    scheme.save(out)
    say(
        f"Wrote {out}: {scheme!r}. Its certificates hold within the memory of a run, in its order. "
        f"Next: sigmax certify {out} --data ... --out RUN"
    )
