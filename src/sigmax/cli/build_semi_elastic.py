"""`sigmax build semi-elastic`: noise by the distance to the training images."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.build_parts import Denoiser, base_network
from sigmax.cli.progress import say, warn_of_noise


def semi_elastic(
    network: Annotated[Path, typer.Argument(help="A checkpoint: .safetensors of sigmax.")],
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the system to.")],
    base: Annotated[float, typer.Option(help="Noise at the distance OFFSET from the training images.")] = 0.25,
    rate: Annotated[
        float, typer.Option(help="How fast log sigma changes with distance (the papers: 0.01).")
    ] = 0.01,
    neighbours: Annotated[int, typer.Option("--k", help="Nearest training images whose distance counts.")] = 20,
    offset: Annotated[
        float, typer.Option(help="Usual mean distance to them (the papers: CIFAR-10 5, MNIST 1.5).")
    ] = 5.0,
    split: opt.Split = "train",
    image_size: opt.ImageSize = None,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Measure from the first so many images; all of them without it.")
    ] = None,
    denoiser: Denoiser = None,
) -> None:
    """Noise that grows with an input's distance to the training images, which are kept in the folder.

    Example: `sigmax build semi-elastic net.safetensors --data cifar10:~/cifar --base 0.5 --out systems/elastic`
    """
    from sigmax import data as sources
    from sigmax.certify.fields import NearestNeighbourSigma
    from sigmax.certify.semi_elastic import SemiElastic
    from sigmax.system.job import check_fits

    warn_of_noise(base)
    model, classes = base_network(network, denoiser)
    training = sources.load(data, split, size=image_size)
    points = training.pixels(sources.select(len(training), maximum=maximum))
    field = NearestNeighbourSigma(points, base=base, rate=rate, k=neighbours, offset=offset)
    scheme = SemiElastic(model, field=field, classes=classes)
    check_fits(scheme, training)
    scheme.save(out)
    sample = field.sigmas(points[:64])
    say(
        f"Wrote {out}: noise by the distance to {len(points):,} images of {training.name} {split}, rate {rate:g}; "
        f"sigma {sample.min():.4g} to {sample.max():.4g} at the first of them. "
        f"Next: sigmax certify {out} --data ... --out RUN"
    )
