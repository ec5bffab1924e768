"""`sigmax train denoiser`: the network that takes the noise off an image before a classifier sees it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn_of_noise
from sigmax.cli.train.options import Device, Out
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sigmax.models import Denoiser
    from sigmax.train.loop.progress import EpochReport


def denoiser(
    data: opt.Data,
    sigma: Annotated[str, typer.Option(help="Range of the noise, pixels in [0, 1], such as 0.25,1.0; or one level.")],
    out: Out,
    classifier: Annotated[Path | None, typer.Option(help="Checkpoint of a classifier whose loss to add.")] = None,
    start: Annotated[str | None, typer.Option(help="A denoiser to begin with, as of `build`.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images (default: 60).")] = None,
    device: Device = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:DenoiserKeys")] = False,
) -> None:
    """Train a denoiser on images with random noise of a range; interrupted training continues when repeated.

    One denoiser serves every noise level of its range, and every classifier.

    Example: `sigmax train denoiser --data digits --sigma 0.1,1.0 --set options.width=16 --out denoiser.safetensors`
    """
    from sigmax import data as sources
    from sigmax import models
    from sigmax.cli.train.keys import DenoiserKeys, given
    from sigmax.config import with_changes
    from sigmax.train import DENOISING, train_denoiser
    from sigmax.train.loop.progress import last_report

    own = given(training__epochs=epochs, training__device=device)
    asked = with_changes(DenoiserKeys(training=DENOISING), [*own, *(changes or [])])
    sigmas = opt.numbers(sigma, "--sigma", "a range such as 0.25,1.0, or one level")
    if len(sigmas) not in (1, 2):
        raise RequestError(f"--sigma must be a range such as 0.25,1.0, or one level; got {sigma!r}")
    if classifier is None and any(change.startswith("classifier_weight") for change in changes or []):
        raise RequestError("classifier_weight is of a classifier's loss; name the classifier by --classifier")
    with_classifier = None if classifier is None else models.load(classifier)[0]
    begun = _begun(start, asked.options)
    warn_of_noise(sigmas[-1])
    dataset = sources.load(data, "train", size=asked.image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_denoiser(
            dataset,
            sigmas=(sigmas[0], sigmas[-1]),
            out=out,
            options=asked.options,
            settings=asked.training,
            classifier=with_classifier,
            weight=0.0 if with_classifier is None else asked.classifier_weight,
            start=begun,
            validation=asked.validation,
            on_step=watch,
            on_epoch=lambda report: setattr(watch, "note", _line(report)),
        )
    last = last_report(out)
    if last is not None:
        say(f"Last epoch: {_line(last).partition(': ')[2]}.")
    say(f"Wrote {out}. Next: sigmax build smoothed CLASSIFIER --denoiser {out} --sigma ... --out SYSTEM")


def _line(report: "EpochReport") -> str:
    """An epoch in a few words."""
    text = f"epoch {report.epoch}/{report.epochs}: loss {report.loss:.3g}, {report.accuracy:.1%} of the noise removed"
    if "psnr" in report.validation:
        found = zip(report.validation["sigmas"], report.validation["psnr"], strict=True)
        text += f" (held out: {', '.join(f'{psnr:.1f} dB at {sigma:g}' for sigma, psnr in found)})"
    return f"{text}, {report.throughput:,.0f} images/s"


def _begun(start: str | None, options: "Mapping[str, object]") -> "Denoiser | None":
    """The denoiser to begin with; what would describe another one beside it is refused."""
    from sigmax.models import denoisers

    if start is None:
        return None
    if options:
        raise RequestError(f"{start} describes its network; leave out {', '.join(f'options.{o}' for o in options)}")
    return denoisers.load(start)
