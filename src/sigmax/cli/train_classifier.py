"""`sigmax train classifier`: the network that votes, by any of the training methods."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn_of_noise
from sigmax.cli.train_field import Field, FieldOptions, without_field
from sigmax.cli.train_options import (
    BehindDenoiser,
    Clip,
    Device,
    Normalise,
    Out,
    Seed,
    Width,
    begun,
    given,
    last_report,
    options,
    read_denoiser,
)
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sigmax.train import Method

NAMES = "gaussian, stability, smoothadv, macer, consistency, smoothmix, cat-rs or easy-samples"

MethodName = Annotated[str, typer.Option(help=f"How to train: {NAMES}.")]
Hyper = Annotated[
    list[str] | None,
    typer.Option(help="A hyper-parameter of the method as NAME=VALUE; repeat for more. A wrong NAME lists them."),
]
Target = Annotated[Path | None, typer.Option(help="For cat-rs: checkpoint of a model trained by gaussian.")]
Moving = Annotated[
    bool,
    typer.Option("--data-dependent", help="Keep a noise for each image and move it as training goes on."),
]


def classifier(
    data: opt.Data,
    sigma: Annotated[float, typer.Option(help="Noise added to each training image, pixels in [0, 1].")],
    out: Out,
    method: MethodName = "gaussian",
    preset: Annotated[
        str | None,
        typer.Option(help="cifar10: the settings of the method's paper at this sigma, but for those given here."),
    ] = None,
    hyper: Hyper = None,
    target: Target = None,
    data_dependent: Moving = False,
    field: Field = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="small-cnn, resnet18, resnet20, resnet56 or resnet110 (default: small-cnn, or preset's)."
        ),
    ] = None,
    width: Width = None,
    normalise: Normalise = "none",
    start: Annotated[
        Path | None, typer.Option(help="Checkpoint whose weights to begin with; it also decides the model.")
    ] = None,
    denoiser: BehindDenoiser = None,
    tune_denoiser: Annotated[
        bool,
        typer.Option(
            "--tune-denoiser", help="Train a copy of the denoiser too: beside it, NAME.denoiser.safetensors."
        ),
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images (default: 120).")] = None,
    batch: Annotated[int | None, typer.Option(help="Noisy images a step, copies counted (default: 64).")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at the start, or peak (default: 0.1).")] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Pull of the weights to zero (default: 0.0005).")
    ] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd, adam or adamw (default: sgd).")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="constant, cosine, step or one-cycle (default: cosine).")
    ] = None,
    clip: Clip = None,
    ema: Annotated[float | None, typer.Option(help="Average the weights, keeping this share; 0: do not.")] = None,
    augment: Annotated[str | None, typer.Option(help="none, crop, crop-flip or strong (default: none).")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16 (default: fp32).")] = None,
    channels_last: Annotated[bool | None, typer.Option("--channels-last", help="Memory layout GPUs like.")] = None,
    compile_: Annotated[bool | None, typer.Option("--compile", help="Compile the network first.")] = None,
    validation: Annotated[
        float, typer.Option(help="Share of the training images to check on during training, not train on.")
    ] = 0.0,
    validate_every: Annotated[int, typer.Option(help="Epochs between two such checks.")] = 10,
    image_size: opt.ImageSize = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Train a classifier on noisy images; interrupted training goes on when repeated.

    Several GPUs: `torchrun --nproc-per-node 4 -m sigmax train classifier ...`

    Example: `sigmax train classifier --data digits --sigma 0.5 --method consistency --out nets/half.safetensors`
    """
    from sigmax import data as sources
    from sigmax.train import Settings, train_classifier
    from sigmax.train.methods import method_preset
    from sigmax.train.network import denoiser_path

    found = None if preset is None else method_preset(preset, method, sigma)
    told = {
        "epochs": epochs,
        "batch": batch,
        "lr": lr,
        "weight_decay": weight_decay,
        "optimiser": optimiser,
        "schedule": schedule,
        "clip": clip,
        "ema": ema,
        "augment": augment,
        "precision": precision,
        "channels_last": channels_last,
        "compile": compile_,
    }
    base = found.settings if found else Settings()
    settings = replace(base, **given(told), seed=seed, device=device)
    own = without_field(hyper or [])
    teach = taught(method, own, target, fields=found.fields if found else {}, moving=data_dependent)
    around = FieldOptions.asked(field, hyper or [], moving=data_dependent)
    teach(sigma)  # what is wrong with the method is said before the images are read
    warn_of_noise(sigma)
    dataset = sources.load(data, "train", size=image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_classifier(
            dataset,
            architecture=model or (found.architecture if found else "small-cnn"),
            options=options(width),
            normalisation=normalise,
            start=begun(start, model, width, normalise),
            denoiser=read_denoiser(denoiser),
            tune_denoiser=tune_denoiser,
            sigma=sigma,
            settings=settings,
            out=out,
            method=around.teaching(teach, dataset) if around else teach,
            validation=validation,
            validate_every=validate_every,
            on_step=watch,
            on_epoch=lambda report: setattr(watch, "note", report.line()),
        )
    before = str(denoiser_path(out)) if tune_denoiser else denoiser
    _conclude(out, before, sigma, around.next_command(out, data, sigma) if around else None)


def taught(
    name: str, texts: list[str], target: Path | None, *, fields: "Mapping[str, Any]", moving: bool
) -> "Callable[[float], Method]":
    """The training method that the options describe, for any sigma."""
    from sigmax.train.data_dependent import DataDependent
    from sigmax.train.methods import DATA_DEPENDENT, METHODS, make_method, parsed, with_moving_noise

    if name not in METHODS:
        make_method(name, 1.0)  # says which there are
    own = [text for text in texts if not text.startswith(f"{DATA_DEPENDENT}.")]
    outer = [text.removeprefix(f"{DATA_DEPENDENT}.") for text in texts if text.startswith(f"{DATA_DEPENDENT}.")]
    if outer and not moving:
        raise RequestError(f"{outer[0]!r} is of --data-dependent training; add that option")
    hyper = {**fields, **parsed(METHODS[name], own)}
    if target is not None:
        hyper["target"] = target
    around = parsed(DataDependent, outer)

    def make(sigma: float) -> "Method":
        inner = make_method(name, sigma, hyper)
        return with_moving_noise(inner, around) if moving else inner

    return make


def _conclude(out: Path, denoiser: str | None, sigma: float, command: str | None = None) -> None:
    last = last_report(out)
    if last is not None:
        seen = "noisy training images" if sigma else "training images"
        say(f"Last epoch: {last.accuracy:.1%} of the {seen} classified right, loss {last.loss:.3g}.")
    before = "" if denoiser is None else f" --denoiser {denoiser}"
    noise = "" if sigma else " --sigma SIGMA"  # it was trained with none, which certifies nothing
    say(f"Wrote {out}. Next: {command or f'sigmax build smoothed {out}{before}{noise} --out SYSTEM'}")
