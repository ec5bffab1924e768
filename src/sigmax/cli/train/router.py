"""`sigmax train router`: the classifier that picks an expert for each input."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn, warn_of_noise
from sigmax.cli.train.options import Device, Epochs, Out, WithDenoiser, begun, read_denoiser
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.cli.train.keys import RouterKeys

Noise = Annotated[
    str | None, typer.Option(metavar="NOISE", help=f"Noise of its votes (default: the preset's). {opt.UNIFORM}.")
]
Start = Annotated[
    Path | None, typer.Option(help="Classifier to begin with, but for its last layer: decides the model.")
]


def router(
    data: opt.Data,
    labels: Annotated[Path, typer.Option(help="Folder of labels, as written by `sigmax label`.")],
    out: Out,
    sigma: Noise = None,
    preset: Annotated[str | None, typer.Option(help="dual-cifar10 or dual-imagenet, as the paper.")] = None,
    model: Annotated[str | None, typer.Option(help="Architecture (default: small-cnn or the preset's).")] = None,
    start: Start = None,
    denoiser: WithDenoiser = None,
    epochs: Epochs = None,
    device: Device = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:router_tables")] = False,
) -> None:
    """Train a router that picks an expert for each input; interrupted training continues when repeated.

    Example: `sigmax train router --data digits --labels work/labels --sigma 0.4 --set loss.consistency=3
    --out nets/router.safetensors`
    """
    from sigmax import data as sources
    from sigmax.cli.train.keys import given
    from sigmax.jobs.label.labels import read_labels
    from sigmax.train.router.options import advice_on_collapse
    from sigmax.train.router.train import train_router

    own = given(training__epochs=epochs, training__device=device)
    kind, at = opt.level(sigma)
    architecture, level, asked = _asked(preset, model, at, [*own, *(changes or [])])
    if kind != "uniform":
        warn_of_noise(level)
    found = read_labels(labels)
    dataset = sources.load(data, "train", size=asked.image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_router(
            dataset,
            found,
            architecture=architecture,
            sigma=level,
            noise="uniform" if kind == "uniform" else "gaussian",
            options=asked.options,
            normalisation=asked.normalise,
            denoiser=read_denoiser(denoiser),
            start=begun(start, model, asked.options, asked.normalise),
            settings=asked.training,
            out=out,
            held_out=asked.held_out,
            on_step=watch,
            on_warning=warn,
            **asked.loss,
        )
    _conclude(out, denoiser, found.sigmas, advice_on_collapse(level, asked.loss))


def _asked(
    preset: str | None, model: str | None, sigma: float | None, changes: list[str]
) -> "tuple[str, float, RouterKeys]":
    """Architecture, noise and keys: the preset's or the defaults, with what was given instead."""
    from sigmax.cli.train.keys import RouterKeys
    from sigmax.config import with_changes
    from sigmax.train.router.options import check_loss, refuse_preset
    from sigmax.train.router.presets import SMALL, router_preset

    base = SMALL if preset is None else router_preset(preset, architecture=model)
    loss: dict[str, Any] = {"sigma": None, **base.fields}
    noise = loss.pop("sigma") if sigma is None else sigma
    if noise is None:
        raise RequestError("the router's noise is not known; give --sigma, at least the experts' largest")
    loss.pop("sigma", None)
    asked = with_changes(RouterKeys(training=base.settings, loss=loss), changes)
    refuse_preset(preset, asked.loss.get("objective", "paper"))
    check_loss(noise, asked.loss)
    return model or base.architecture, noise, asked


def _conclude(out: Path, denoiser: str | None, sigmas: tuple[float, ...], advice: str) -> None:
    from sigmax.train.router.check import said_of_router

    said = said_of_router(out, sigmas, advice)
    if said is not None:
        say(said[0])
        if said[1] is not None:
            warn(said[1])
    before = "" if denoiser is None else f" --denoiser {denoiser}"
    say(f"Wrote {out}. Next: sigmax build dual {out} EXPERT...{before} --out SYSTEM")
