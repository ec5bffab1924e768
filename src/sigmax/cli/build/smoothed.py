"""`sigmax build smoothed`: one network, one noise level."""

from typing import Annotated, Literal

import typer

from sigmax.cli import options as opt
from sigmax.cli.build import networks as shared
from sigmax.errors import RequestError

Noise = Annotated[
    str | None, typer.Option(metavar="NOISE", help=f"Noise, pixels in [0, 1] (default: as trained). {opt.UNIFORM}.")
]


def smoothed(
    out: shared.SystemOut,
    network: Annotated[
        str | None,
        typer.Argument(metavar="NETWORK", help=f"A {shared.EXPECTED.removeprefix('expected a ')}. None runs code."),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            metavar="PACKAGE.MODULE:FUNCTION",
            help="Instead: imports and RUNS this code, which returns the model; certify and predict need it again.",
        ),
    ] = None,
    sigma: Noise = None,
    bound: Annotated[
        Literal["one-sided", "runner-up"], typer.Option(help="runner-up also bounds the strongest rival.")
    ] = "one-sided",
    architecture: Annotated[str | None, typer.Option(help="Of weights (.pt, .pth, .th), as --model of train.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, where the file does not say it.")] = None,
    input_shape: Annotated[str | None, typer.Option(help="Of an image, as 3,32,32, if the file does not say.")] = None,
    normalise: Annotated[
        str | None,
        typer.Option("--normalise", "--normalize", help="Mean and std before it: none, cifar10, imagenet or half."),
    ] = None,
    grid: shared.Grid = None,
    denoiser: shared.Denoiser = None,
    store: opt.Store = "fp32",
) -> None:
    """Smooth one network with one noise level.

    Example: `sigmax build smoothed net.onnx --sigma 0.5 --out systems/half`
    """
    from sigmax.schemes.smoothed import Smoothed

    given = {"architecture": architecture, "classes": classes, "input-shape": input_shape, "normalise": normalise}
    if (network is None) == (code is None):
        raise RequestError(f"give either NETWORK or --code; NETWORK: {shared.EXPECTED}")
    model, description = (
        shared.read_network(network, given) if network is not None else shared.coded_network(str(code), given)
    )
    noise = shared.noise_of(network or str(code), description, *opt.level(sigma), grid=grid)
    base = shared.denoised(denoiser, model, description)
    scheme = Smoothed(base, noise=noise, classes=description.classes, bound=bound)
    shared.conclude(scheme, out, f" It is certified with --code {code}." if code else "", store=store)
