"""`sigmax build semi-elastic`, `memorized` and `lipschitz`: schemes beyond one noise level for all inputs."""

from typing import Annotated, Literal

import typer

from sigmax.cli import options as opt
from sigmax.cli.build.networks import Denoiser, Grid, Network, SystemOut, base_network, conclude, trained_noise
from sigmax.cli.progress import warn_of_noise


def semi_elastic(
    network: Network,
    data: opt.Data,
    out: SystemOut,
    base: Annotated[float, typer.Option(help="Noise at the distance OFFSET from the training images.")] = 0.25,
    rate: Annotated[float, typer.Option(help="How fast log sigma changes with distance (the papers: 0.01).")] = 0.01,
    neighbours: Annotated[int, typer.Option("--k", help="Nearest training images whose distance counts.")] = 20,
    offset: Annotated[
        float, typer.Option(help="Usual mean distance to them (the papers: CIFAR-10 5, MNIST 1.5).")
    ] = 5.0,
    split: opt.Split = "train",
    image_size: opt.ImageSize = None,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Measure from the first so many images; all of them without it.")
    ] = None,
    grid: Grid = None,
    denoiser: Denoiser = None,
) -> None:
    """Noise that grows with an input's distance to the training images, which are kept in the folder.

    Example: `sigmax build semi-elastic net.safetensors --data cifar10:~/cifar --base 0.5 --out systems/elastic`
    """
    from sigmax import data as sources
    from sigmax.jobs.certify import check_fits
    from sigmax.schemes.fields import NearestNeighbourSigma
    from sigmax.schemes.semi_elastic import SemiElastic

    warn_of_noise(base)
    model, description = base_network(network, denoiser)
    training = sources.load(data, split, size=image_size)
    points = training.pixels(sources.select(len(training), maximum=maximum))
    points.setflags(write=False)  # so that the field takes them as they are, rather than a copy
    field = NearestNeighbourSigma(points, base=base, rate=rate, k=neighbours, offset=offset)
    scheme = SemiElastic(model, field=field, classes=description.classes, grid=grid)
    check_fits(scheme, training)
    sample = field.sigmas(points[:64])
    conclude(
        scheme,
        out,
        f" Noise by the distance to {len(points):,} images of {training.name} {split}: sigma {sample.min():.4g} to "
        f"{sample.max():.4g} at the first of them.",
    )


def memorized(
    network: Network,
    sigma0: Annotated[float, typer.Option(help="Noise that the search begins with.")],
    out: SystemOut,
    least: Annotated[float | None, typer.Option(help="Least noise (default: half of SIGMA0).")] = None,
    most: Annotated[float | None, typer.Option(help="Most noise (default: twice SIGMA0).")] = None,
    search: Annotated[
        Literal["ascent", "signs", "grid"],
        typer.Option(help="ascent: gradient steps; signs: from several starts; grid: the best of STEPS."),
    ] = "ascent",
    steps: Annotated[int, typer.Option(help="Steps of the search.")] = 50,
    noises: Annotated[int, typer.Option(help="Noise samples a step.")] = 8,
    step: Annotated[float, typer.Option(help="Length of a gradient step.")] = 0.02,
    grid: Grid = None,
    denoiser: Denoiser = None,
) -> None:
    """Certify each input at the noise level that suits it; certificates hold within the run's memory.

    Example: `sigmax build memorized net.safetensors --sigma0 0.25 --out systems/memorized`
    """
    from sigmax.schemes.memorized import Memorized

    warn_of_noise(sigma0)
    model, description = base_network(network, denoiser)
    scheme = Memorized(
        model,
        sigma0=sigma0,
        classes=description.classes,
        least=least,
        most=most,
        search=search,
        steps=steps,
        noises=noises,
        step=step,
        grid=grid,
    )
    conclude(scheme, out, " Its certificates hold within the memory of a run, in its order.")


def splitting(
    network: Network,
    out: SystemOut,
    scale: Annotated[
        float | None, typer.Option(help="Half the length of the intervals, pixels in [0, 1] (default: as trained).")
    ] = None,
    grid: Annotated[int, typer.Option(help="Steps from 0 to 1 that stored images have.")] = 255,
    seed: Annotated[int, typer.Option(help="Of the offsets of an image's numbers; part of the system.")] = 0,
    store: opt.Store = "fp32",
) -> None:
    """Certify quantised images exactly in l1: a vote at every split, no chance and no alpha.

    Example: `sigmax build splitting split.safetensors --out systems/split`
    """
    from sigmax import models
    from sigmax.errors import RequestError
    from sigmax.schemes.splitting import Splitting

    model, description = models.load(network)
    trained = description.sigma if trained_noise(description) == "splitting" else None
    asked = trained if scale is None else scale
    if asked is None:
        raise RequestError(f"{network} was not trained with splitting noise; give --scale")
    scheme = Splitting(model, scale=asked, grid=grid, seed=seed, classes=description.classes)
    conclude(scheme, out, " Its radii hold among images that are as stored.", store=store)


def lipschitz(
    network: Network,
    constant: Annotated[float, typer.Option(help="l2 Lipschitz constant of the scores; it is recorded, not proved.")],
    out: SystemOut,
    rounding: Annotated[
        float | None,
        typer.Option(help="What arithmetic may move a score by, as a share of constant * (|x| + sqrt(dim)) + |score|."),
    ] = None,
) -> None:
    """Certify from the margin of a network's scores, without noise and without samples.

    Example: `sigmax build lipschitz orthogonal.safetensors --constant 1.0 --out systems/lipschitz`
    """
    from sigmax import models
    from sigmax.schemes.lipschitz import Lipschitz

    model, description = models.load(network)
    conclude(Lipschitz(model, constant, classes=description.classes, rounding=rounding), out)
