"""`sigmax label` and `sigmax choose`: how far each expert certifies each training image, and which experts pay."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import options as opt
from sigmax.cli.progress import console, progress, resumable, say
from sigmax.errors import RequestError
from sigmax.records.rounding import down, share_down

if TYPE_CHECKING:
    import torch

    from sigmax.certify.scheme import Scheme
    from sigmax.train.choose import Choice
    from sigmax.train.labels import Labels

Folder = Annotated[Path, typer.Argument(help="Folder of labels, as written by `sigmax label`.", metavar="LABELS")]


def label(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="The experts' folders, from least noise to most; or one dual system, for its experts.",
            metavar="SYSTEM...",
        ),
    ],
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the labels to, or to go on with.")],
    split: opt.Split = "train",
    n: Annotated[int, typer.Option("--n", help="Draws that prove the radius.")] = 100,
    n0: Annotated[int, typer.Option("--n0", help="Draws that pick the class.")] = 20,
    alpha: opt.Alpha = 1e-3,
    sampling: opt.Sampling = opt.SamplingName.FIXED,
    targets: opt.Targets = None,
    tolerance: opt.Tolerance = None,
    fraction: Annotated[float, typer.Option(help="Label this share of the inputs, picked at random.")] = 1.0,
    sample_seed: Annotated[
        int,
        typer.Option(
            help="Seed that picks the inputs; a larger share, in a folder of its own, has those of a smaller one."
        ),
    ] = 0,
    seed: opt.Seed = 0,
    image_size: opt.ImageSize = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = opt.Precision.FP32,
    compile_: opt.Compile = opt.CompileName.OFF,
) -> None:
    """Certify training inputs with every expert, to teach a router; goes on when the command is repeated.

    Example: `sigmax label systems/quarter systems/half systems/one --data cifar10:~/cifar --out labels`
    """
    from sigmax import data as sources
    from sigmax.certify.sampling import asked
    from sigmax.train.labels import make_labels

    names, experts = _experts(systems, batch=batch, device=device, dtype=opt.torch_dtype(dtype), compile_=compile_)
    question = asked(sampling.value, opt.radii(targets), tolerance)
    for expert in experts:  # cheap, so before any image is read
        expert.check_question(n0=n0, n=n, alpha=alpha, sampling=question)
    dataset = sources.load(data, split, size=image_size)
    with (
        resumable(f"Every input finished so far is kept in {out}."),
        progress(f"label {out.name}") as watch,
    ):
        labels = make_labels(
            experts,
            dataset,
            out,
            n=n,
            n0=n0,
            alpha=alpha,
            fraction=fraction,
            sample_seed=sample_seed,
            seed=seed,
            sampling=question,
            watch=watch,
        )
    console.print(_labels_table(labels, names))
    say(f"Dropped, since no expert certifies them: {100 * labels.dropped:.1f}%. 'Best for' is of the others.")
    noise = max(expert.rule.largest_noise for expert in experts) or "SIGMA"  # at least as much as any expert's
    following = f"sigmax train router --labels {out} --data {data} --sigma {noise} --out ROUTER.safetensors"
    say(f"Labels: {out}. Next: {following}")


def choose(
    labels: Folder,
    k: Annotated[int, typer.Option("--k", help="How many noise levels to choose.")] = 3,
    radii: Annotated[
        str | None,
        typer.Option(help="Go by certified accuracy at these radii, such as 0.25,0.5 (default: by ACR)."),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Also try every set, to see what greedy misses.")] = False,
) -> None:
    """Choose the noise levels worth an expert, from labels made over a grid of them.

    Example: `sigmax choose labels --k 3`
    """
    from sigmax.train.choose import choose_sigmas
    from sigmax.train.labels import read_labels

    objective = "acr" if radii is None else _numbers(radii)
    choice = choose_sigmas(read_labels(labels), k, objective, exact=exact)
    console.print(_choice_table(choice))
    say(f"Attained: {choice.objective} if the router never erred; the whole grid attains {choice.whole:.4f}.")
    say(f"Chosen: sigma {', '.join(f'{sigma:g}' for sigma in choice.sigmas)}")


def _experts(
    systems: Sequence[str],
    *,
    batch: int | None,
    device: str | None,
    dtype: "torch.dtype",
    compile_: opt.CompileName,
) -> "tuple[list[str], list[Scheme]]":
    """What to call the experts, and the experts."""
    from sigmax.certify.dual import Dual
    from sigmax.system import load

    loaded = [load(system, device=device, dtype=dtype, batch=batch, compile=compile_.value) for system in systems]
    if len(loaded) == 1 and isinstance(loaded[0], Dual):
        experts = loaded[0].experts
        return [f"expert-{i}" for i in range(len(experts))], list(experts)
    return [f"expert-{i} {Path(system).name}" for i, system in enumerate(systems)], loaded


def _labels_table(labels: "Labels", names: Sequence[str]) -> Table:
    table = Table(title=f"{len(labels)} labelled inputs")
    for column in ("expert", "sigma", "best for, %", "mean radius", "certified, %"):
        table.add_column(column, justify="left" if column == "expert" else "right", no_wrap=True)
    for name, sigma, share, column in zip(names, labels.sigmas, labels.shares, labels.radii.T, strict=True):
        table.add_row(
            Text(name),
            "" if math.isnan(sigma) else f"{sigma:g}",  # an expert without noise of its own
            share_down(100 * float(share)),
            down(float(column.mean()), 3),
            share_down(100 * float((column > 0).mean())),
        )
    return table


def _choice_table(choice: "Choice") -> Table:
    table = Table()
    frame = choice.frame()
    for column in frame.columns:
        table.add_column(str(column), justify="right", no_wrap=True)
    for _, row in frame.iterrows():
        table.add_row(*(_cell(str(column), value) for column, value in row.items()))
    return table


def _cell(column: str, value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{sigma:g}" for sigma in value)
    return f"{value:.4f}" if column in ("attained", "gain", "share", "optimum") else f"{value:g}"


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise RequestError(f"--radii must be numbers such as 0.25,0.5,1; got {text!r}") from error
