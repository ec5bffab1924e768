"""`sigmax train classifier`: the network that votes, by any of the training methods."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn_of_noise
from sigmax.cli.train.options import Device, Epochs, Out, WithDenoiser, begun, read_denoiser
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sigmax.cli.train.keys import ClassifierKeys
    from sigmax.data import Dataset
    from sigmax.train import Method
    from sigmax.train.loop.noisy import NoiseName

MethodName = Annotated[str, typer.Option(help="Training method; --keys lists them with their keys.")]

Noise = Annotated[
    str, typer.Option(metavar="NOISE", help="Pixels in [0, 1]: 0.5; or a scale, for l1: uniform:0.5, splitting:0.5.")
]


def classifier(
    data: opt.Data,
    sigma: Noise,
    out: Out,
    method: MethodName = "gaussian",
    preset: Annotated[str | None, typer.Option(help="cifar10: as the method's paper, at this sigma.")] = None,
    model: Annotated[str | None, typer.Option(help="resnet18, resnet50 ... (else: small-cnn or the preset's).")] = None,
    start: Annotated[Path | None, typer.Option(help="Checkpoint to begin with; it decides the model.")] = None,
    denoiser: WithDenoiser = None,
    epochs: Epochs = None,
    device: Device = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:classifier_tables")] = False,
) -> None:
    """Train a classifier on noisy images; interrupted training continues when repeated.

    Several GPUs: `torchrun --nproc-per-node 4 -m sigmax train classifier ...`

    Example: `sigmax train classifier --data digits --sigma 0.5 --method consistency --set method.consistency=10
    --set training.lr=0.05 --out nets/half.safetensors`
    """
    from sigmax import data as sources
    from sigmax.cli.train.keys import given
    from sigmax.train import train_classifier

    own = given(training__epochs=epochs, training__device=device)
    kind, level = _noise(sigma)
    architecture, asked = _asked(preset, method, level, [*own, *(changes or [])])
    teach = taught(method, asked, kind)
    teach(level)  # what is wrong with the method is refused before the images are read
    if kind == "gaussian":
        warn_of_noise(level)
    dataset = sources.load(data, "train", size=asked.image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_classifier(
            dataset,
            architecture=model or architecture,
            options=asked.options,
            normalisation=asked.normalise,
            start=begun(start, model, asked.options, asked.normalise),
            denoiser=read_denoiser(denoiser),
            tune_denoiser=asked.tune_denoiser,
            sigma=level,
            noise=kind,
            settings=asked.training,
            out=out,
            method=_within_field(asked, teach, dataset),
            validation=asked.validation,
            validate_every=asked.validate_every,
            on_step=watch,
            on_epoch=lambda report: setattr(watch, "note", report.line()),
        )
    _conclude(asked, out, denoiser, level, data, kind)


def _noise(text: str) -> "tuple[NoiseName, float]":
    from sigmax.train.loop.noisy import NoiseName

    kind, level = opt.level(text, kinds=get_args(NoiseName))
    return kind, level  # type: ignore[return-value]  # both are there, and of these kinds


def _asked(preset: str | None, method: str, sigma: float, changes: list[str]) -> "tuple[str, ClassifierKeys]":
    """The architecture and the keys: the preset's or the defaults, with these changes."""
    from sigmax.cli.train.keys import ClassifierKeys
    from sigmax.config import with_changes
    from sigmax.train.methods.registry import method_preset

    if preset is None:
        return "small-cnn", with_changes(ClassifierKeys(), changes)
    found = method_preset(preset, method, sigma)
    base = ClassifierKeys(training=found.settings, method=dict(found.fields))
    return found.architecture, with_changes(base, changes)


def taught(name: str, asked: "ClassifierKeys", noise: str = "gaussian") -> "Callable[[float], Method]":
    """The training method that the keys describe, for noise of any level."""
    from sigmax.train.methods.data_dependent import with_moving_noise
    from sigmax.train.methods.registry import make_method

    moving = asked.data_dependent
    if moving is not None and asked.field is not None:
        raise RequestError("field and data_dependent both decide the noise of an image; set keys of one of them")

    def make(sigma: float) -> "Method":
        inner = make_method(name, sigma, asked.method, noise=noise)
        return inner if moving is None else with_moving_noise(inner, moving)

    return make


def _within_field(
    asked: "ClassifierKeys", teach: "Callable[[float], Method]", dataset: "Dataset"
) -> "Callable[[float], Method]":
    """The method under the noise of the field asked for, if one is, over these images."""
    from sigmax.schemes.fields import NearestNeighbourSigma
    from sigmax.train import FieldNoise

    field = asked.field
    if field is None:
        return teach
    points = dataset.pixels(range(len(dataset)))
    return lambda sigma: FieldNoise(teach(sigma), NearestNeighbourSigma(points, base=sigma, **field.model_dump()))


def _conclude(asked: "ClassifierKeys", out: Path, denoiser: str | None, sigma: float, data: str, noise: str) -> None:
    from sigmax.train.loop.network import denoiser_path
    from sigmax.train.loop.progress import last_report

    last = last_report(out)
    if last is not None:
        seen = "noisy training images" if sigma else "training images"
        say(f"Last epoch: {last.accuracy:.1%} of the {seen} classified right, loss {last.loss:.3g}.")
    before = str(denoiser_path(out)) if asked.tune_denoiser else denoiser
    kind = "splitting" if noise == "splitting" else "smoothed"
    command = f"sigmax build {kind} {out}" + ("" if before is None else f" --denoiser {before}")
    if asked.field is not None:
        how = f"--base {sigma:g} --rate {asked.field.rate:g} --k {asked.field.k} --offset {asked.field.offset:g}"
        command = f"sigmax build semi-elastic {out} --data {data} {how}"
    noise = "" if sigma else " --sigma SIGMA"  # it was trained with none, which certifies nothing
    say(f"Wrote {out}. Next: {command}{noise} --out SYSTEM")
