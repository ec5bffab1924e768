"""`sigmax train denoiser`: the network that takes the noise off an image before a classifier sees it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn_of_noise
from sigmax.cli.train_options import Device, Out, Seed, given, last_report
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.models import Classifier, Denoiser
    from sigmax.train.progress import EpochReport


def denoiser(
    data: opt.Data,
    sigma: Annotated[
        str, typer.Option(help="Range of the noise, pixels in [0, 1], such as 0.25,1.0; or one level.")
    ],
    out: Out,
    width: Annotated[int | None, typer.Option(help="Channels at full resolution (default: 64).")] = None,
    multipliers: Annotated[
        str | None, typer.Option(help="Of the width at each halved resolution, such as 1,2,2 (the default).")
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Residual blocks at each resolution (default: 2).")] = None,
    attention: Annotated[
        str | None, typer.Option(help="Sides in pixels at which to attend, such as 16,8; none (default: 8).")
    ] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of the channels left out (default: 0).")] = None,
    classifier: Annotated[
        Path | None, typer.Option(help="Checkpoint of a classifier whose loss to add; it stays as it is.")
    ] = None,
    classifier_weight: Annotated[
        float | None, typer.Option(help="Weight of the classifier's loss beside the squared error (default: 0.01).")
    ] = None,
    start: Annotated[str | None, typer.Option(help="A denoiser to begin with, as of `build`.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images (default: 60).")] = None,
    batch: Annotated[int | None, typer.Option(help="Images a step (default: 64).")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at its peak (default: 0.002).")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Pull of the weights to zero (default: 0.01).")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="constant, cosine, step or one-cycle (default: one-cycle).")
    ] = None,
    ema: Annotated[
        float | None, typer.Option(help="Average the weights, keeping this share (default: 0.99).")
    ] = None,
    augment: Annotated[str | None, typer.Option(help="none, crop, crop-flip or strong (default: none).")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16 (default: fp32).")] = None,
    channels_last: Annotated[bool | None, typer.Option("--channels-last", help="Memory layout GPUs like.")] = None,
    compile_: Annotated[bool | None, typer.Option("--compile", help="Compile the network first.")] = None,
    validation: Annotated[float, typer.Option(help="Share of the images to check on, not train on.")] = 0.0,
    image_size: opt.ImageSize = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Train a denoiser on images with random noise of a range; interrupted training goes on when repeated.

    One denoiser serves every noise of its range, and every classifier.

    Example: `sigmax train denoiser --data digits --sigma 0.1,1.0 --width 16 --out nets/denoiser.safetensors`
    """
    from sigmax import data as sources
    from sigmax.train import DENOISING, train_denoiser

    told = {
        "epochs": epochs,
        "batch": batch,
        "lr": lr,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "ema": ema,
        "augment": augment,
        "precision": precision,
        "channels_last": channels_last,
        "compile": compile_,
    }
    shape = {
        "width": width,
        "multipliers": _numbers("multipliers", multipliers),
        "blocks": blocks,
        "attention": _numbers("attention", attention),
        "dropout": dropout,
    }
    sigmas = _range(sigma)
    settings = replace(DENOISING, **given(told), seed=seed, device=device)
    with_classifier, weight = _classifier(classifier, classifier_weight)
    begun = _begun(start, given(shape))
    warn_of_noise(sigmas[1])
    dataset = sources.load(data, "train", size=image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_denoiser(
            dataset,
            sigmas=sigmas,
            out=out,
            options=given(shape),
            settings=settings,
            classifier=with_classifier,
            weight=weight,
            start=begun,
            validation=validation,
            on_step=watch,
            on_epoch=lambda report: setattr(watch, "note", _line(report)),
        )
    last = last_report(out)
    if last is not None:
        say(f"Last epoch: {_line(last).partition(': ')[2]}.")
    say(f"Wrote {out}. Next: sigmax build smoothed CLASSIFIER --denoiser {out} --sigma ... --out SYSTEM")


def _line(report: "EpochReport") -> str:
    """An epoch in a few words."""
    text = (
        f"epoch {report.epoch}/{report.epochs}: loss {report.loss:.3g}, {report.accuracy:.1%} of the noise removed"
    )
    if "psnr" in report.validation:
        found = zip(report.validation["sigmas"], report.validation["psnr"], strict=True)
        text += f" (held out: {', '.join(f'{psnr:.1f} dB at {sigma:g}' for sigma, psnr in found)})"
    return f"{text}, {report.throughput:,.0f} images/s"


def _range(text: str) -> tuple[float, float]:
    try:
        low, *rest = (float(part) for part in text.split(","))
        (high,) = rest or (low,)
    except ValueError as error:
        raise RequestError(f"--sigma must be a range such as 0.25,1.0, or one level; got {text!r}") from error
    return low, high


def _numbers(name: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(part) for part in text.split(",") if part not in ("", "none")]
    except ValueError as error:
        raise RequestError(f"--{name} must be whole numbers such as 1,2,2; got {text!r}") from error


def _classifier(path: Path | None, weight: float | None) -> "tuple[Classifier | None, float]":
    from sigmax import models

    if path is None:
        if weight:
            raise RequestError("--classifier-weight is of a classifier's loss; name the classifier by --classifier")
        return None, 0.0
    return models.load(path)[0], 0.01 if weight is None else weight


def _begun(start: str | None, shape: dict[str, object]) -> "Denoiser | None":
    """The denoiser to begin with; what would describe another one beside it is refused."""
    from sigmax.models import denoisers

    if start is None:
        return None
    if shape:
        raise RequestError(
            f"{start} says which network it is; leave out {', '.join(f'--{name}' for name in shape)}"
        )
    return denoisers.load(start)
