"""`sigmax train`: networks that stand the noise they are smoothed with."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say

app = typer.Typer(help="Train networks for smoothing.", no_args_is_help=True)


@app.callback()
def _several_kinds() -> None:
    """Keep `classifier` a word of its own while it is the only kind."""


@app.command()
def classifier(
    data: opt.Data,
    sigma: Annotated[float, typer.Option(help="Noise added to each training image, pixels in [0, 1].")],
    out: Annotated[Path, typer.Option("--out", help="Checkpoint to write, NAME.safetensors.")],
    model: Annotated[
        str, typer.Option(help="Architecture: small-cnn, resnet18, resnet20, resnet56 or resnet110.")
    ] = "small-cnn",
    width: Annotated[
        int | None, typer.Option(help="Channels of small-cnn or resnet18 (default: the model's).")
    ] = None,
    normalise: Annotated[
        str, typer.Option(help="none, cifar10 or imagenet mean and std, kept in the model.")
    ] = "none",
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 120,
    batch: Annotated[int, typer.Option(help="Images a step.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate at the start; falls to zero as a cosine.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(help="Pull of the weights to zero.")] = 5e-4,
    augment: Annotated[str, typer.Option(help="none, crop or crop-flip.")] = "none",
    image_size: opt.ImageSize = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and noise.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
) -> None:
    """Train a classifier on noisy images (Gaussian augmentation); interrupted training goes on when repeated.

    Example: `sigmax train classifier --data digits --sigma 0.5 --out nets/half.safetensors`
    """
    from sigmax import data as sources
    from sigmax.train import Settings, train_classifier

    settings = Settings(
        epochs=epochs, batch=batch, lr=lr, weight_decay=weight_decay, augment=augment, seed=seed, device=device
    )
    dataset = sources.load(data, "train", size=image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_classifier(
            dataset,
            architecture=model,
            options={} if width is None else {"width": width},
            normalisation=normalise,
            sigma=sigma,
            settings=settings,
            out=out,
            on_step=watch,
        )
    say(f"Wrote {out}. Next: sigmax build smoothed {out} --out SYSTEM")
