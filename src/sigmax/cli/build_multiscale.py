"""`sigmax build multiscale`: a cascade of noise levels over one network, or one each."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.build_parts import Denoiser, base_network, one_or_each
from sigmax.cli.progress import complain, say, warn_of_noise


class Shares(StrEnum):
    """How alpha is shared between the bounds of a cascade."""

    SOUND = "sound"
    RELEASED = "released"


def multiscale(
    networks: Annotated[
        list[Path],
        typer.Argument(help="One checkpoint for all scales, or one for each sigma.", metavar="NETWORK..."),
    ],
    sigmas: Annotated[str, typer.Option(help="Noise levels, rising, such as 0.25,0.5,1.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the system to.")],
    thresholds: Annotated[
        str, typer.Option(help="Share of votes at which a scale names a class; one, or one for each sigma.")
    ] = "0.5",
    budget: Annotated[
        Shares, typer.Option(help="sound, or released: the authors' shares of alpha, for comparison; not sound.")
    ] = Shares.SOUND,
    denoiser: Denoiser = None,
) -> None:
    """Try noise levels from the largest on; the first that is sure of a class names it.

    Example: `sigmax build multiscale net.safetensors --sigmas 0.25,0.5,1 --out systems/cascade`
    """
    from sigmax.certify.multiscale import Multiscale

    levels = opt.numbers(sigmas, "--sigmas", "noise levels such as 0.25,0.5,1")
    marks = opt.numbers(thresholds, "--thresholds", "shares of votes such as 0.5 or 0.5,0.5,0.6")
    for level in levels:
        warn_of_noise(level)
    models, classes = zip(*(base_network(path, denoiser) for path in networks), strict=True)
    scheme = Multiscale(
        one_or_each(models),
        sigmas=levels,
        classes=classes[0],
        thresholds=marks[0] if len(marks) == 1 else marks,
        budget=budget.value,
    )
    scheme.save(out)
    if budget is Shares.RELEASED:
        complain(
            "warning: with this budget the radii are no certificates; use it to compare with the authors' only",
            style="yellow",
        )
    shown = " / ".join(f"{level:g}" for level in reversed(levels))
    say(
        f"Wrote {out}: a cascade of sigma {shown}, {scheme.classes} classes, budget {budget.value}. "
        f"Next: sigmax certify {out} --data ... --out RUN"
    )
