"""`sigmax diagnose`: what a training method does to easy and hard inputs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sigmax.cli import options as opt
from sigmax.cli.build.networks import noise_of
from sigmax.cli.progress import STARTS_OVER, console, progress, resumable, say
from sigmax.cli.train.classifier import MethodName
from sigmax.errors import RequestError
from sigmax.files import written_whole

app = typer.Typer(help="Analyse how networks are trained.", no_args_is_help=True)


@app.callback()
def _several_kinds() -> None:
    """Keep `gradients` a subcommand while it is the only one."""


@app.command()
def gradients(
    network: Annotated[Path, typer.Argument(help="A checkpoint of sigmax, .safetensors.")],
    data: opt.Data,
    split: opt.Split = "train",
    sigma: Annotated[float | None, typer.Option(help="Noise, pixels in [0, 1] (default: as trained).")] = None,
    method: MethodName = "gaussian",
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:method_tables")] = False,
    samples: Annotated[int, typer.Option(help="Votes for each image, by which it is easy or hard.")] = 100,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file for every image's p_A and norm.")] = None,
    image_size: opt.ImageSize = None,
    seed: opt.Seed = 0,
    device: opt.Device = None,
) -> None:
    """Which images does a method learn from? Gradient norms of easy (p_A > 1/2) and hard (p_A < 1/2) ones.

    Example: `sigmax diagnose gradients nets/half.safetensors --data digits --max 200`
    """
    from sigmax import data as sources
    from sigmax import models
    from sigmax.cli.train.keys import MethodKeys
    from sigmax.config import with_changes
    from sigmax.train.gradients import gradient_shares
    from sigmax.train.methods.registry import make_method

    model, description = models.load(network, device=device or "cpu")
    noise = noise_of(network, description, "gaussian", sigma).sigma
    learner = make_method(method, noise, with_changes(MethodKeys(), changes or []).method)
    if out is not None and out.exists():
        raise RequestError(f"{out} exists already; name another file with --out")
    dataset = sources.load(data, split, size=image_size)
    chosen = sources.select(len(dataset), start=start, skip=skip, maximum=maximum)
    with resumable("Nothing is kept of it.", STARTS_OVER), progress("gradients") as watch:
        found = gradient_shares(
            model,
            learner,
            dataset,
            sigma=noise,
            samples=samples,
            indices=[int(i) for i in chosen],
            seed=seed,
            device=device or "cpu",
            on_input=watch,
        )
    table = Table("inputs", "count", "mean norm of the gradient", "share of the sum")
    for name, group in (("easy (p_A > 1/2)", found.easy), ("hard (p_A < 1/2)", found.hard)):
        table.add_row(name, str(group.inputs), f"{group.mean_norm:.4g}", f"{group.share:.1%}")
    console.print(table)
    say(f"{method}, sigma {noise:g}: an easy input's gradient is {found.ratio:.3g} of a hard one's on average.")
    if out is not None:
        with written_whole(out) as draft:
            found.frame().to_csv(draft, index=False)
        say(f"Wrote {out}")
