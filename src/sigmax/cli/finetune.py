"""`sigmax finetune`: the experts of a dual system, trained on under the noise its router gives each input."""

from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, progress, resumable, say
from sigmax.cli.train_options import Clip
from sigmax.errors import RequestError


def finetune(
    system: opt.System,
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the fine-tuned system to.")],
    split: opt.Split = "train",
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 15,
    batch: Annotated[int, typer.Option(help="Noisy images a step.")] = 128,
    lr: Annotated[float, typer.Option(help="Learning rate, held constant.")] = 2e-5,
    weight_decay: Annotated[float, typer.Option(help="Pull of the weights to zero.")] = 0.01,
    optimiser: Annotated[str, typer.Option(help="adamw, adam or sgd.")] = "adamw",
    augment: Annotated[str, typer.Option(help="none, crop, crop-flip or strong.")] = "none",
    consistency: Annotated[
        float,
        typer.Option(
            help="Weight of agreement between two noisy copies of an image, for experts trained so; the paper: 0."
        ),
    ] = 0.0,
    clip: Clip = None,
    n: Annotated[int, typer.Option("--n", help="Votes that decide each image's route.")] = 100,
    image_size: opt.ImageSize = None,
    seed: Annotated[int, typer.Option(help="Seed of order and noise.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
) -> None:
    """Fine-tune the experts of a dual system, each image under the noise that the router gives it.

    The defaults are the paper's for a large pretrained classifier; a small network needs a larger --lr. The system
    given is left as it is. Work is kept in OUT.training, and goes on when the command is repeated.

    Example: `sigmax finetune systems/dual --data digits --lr 0.001 --out systems/tuned`
    """
    from sigmax import data as sources
    from sigmax.certify.dual import Dual
    from sigmax.system import folder as systems
    from sigmax.train import Settings, fine_tune

    settings = Settings(
        epochs=epochs,
        batch=batch,
        lr=lr,
        weight_decay=weight_decay,
        optimiser=optimiser,
        schedule="constant",
        augment=augment,
        clip=clip or 0.0,
        seed=seed,
        device=device,
    )
    scheme = systems.load(system, device=device)
    if not isinstance(scheme, Dual):
        raise RequestError(
            f"{system} is no dual system, so no router gives its inputs a noise; `sigmax build dual` makes one"
        )
    if Path(system).resolve() == out.resolve():
        raise RequestError(f"{out} is the system to begin with; name another folder with --out")
    training = Path(f"{out}.training")
    if (out / systems.HEAD).exists() and not training.exists():
        raise RequestError(
            f"{out} holds a system that was not made by this command; name another folder with --out"
        )
    dataset = sources.load(data, split, size=image_size)
    with resumable(f"The finished epochs are kept in {training}."), progress(f"finetune {out.name}") as watch:
        tuned = fine_tune(
            scheme,
            dataset,
            training,
            settings=settings,
            n=n,
            seed=seed,
            consistency=consistency,
            on_step=watch,
            on_routes=lambda counts: say(f"Images of each route: {', '.join(f'{count:,}' for count in counts)}."),
            on_warning=lambda text: complain(f"warning: {text}", style="yellow"),
        )
    tuned.save(out)
    say(f"Wrote {out}. Next: sigmax certify {out} --data ... --out RUN, or label again with its experts")
