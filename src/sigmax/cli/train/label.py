"""`sigmax label` and `sigmax choose`: how far each expert certifies each training image, and which noise levels pay."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sigmax.cli import options as opt
from sigmax.cli.progress import console, progress, resumable, say
from sigmax.records.rounding import down, share_down

if TYPE_CHECKING:
    from sigmax.jobs.label.labels import Labels
    from sigmax.schemes.scheme import Scheme
    from sigmax.train.choose import Choice

Folder = Annotated[Path, typer.Argument(help="Folder of labels, as written by `sigmax label`.", metavar="LABELS")]


def label(
    systems: Annotated[list[str], typer.Argument(metavar="SYSTEM...", help="From least noise on; or one dual.")],
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the labels to, or to continue.")],
    split: opt.Split = "train",
    n: Annotated[int, typer.Option("--n", help="Samples that prove the radius.")] = 100,
    alpha: opt.Alpha = 1e-3,
    device: opt.Device = None,
    dtype: opt.Dtype = "fp32",
    workers: opt.Workers = None,
    gpus_per_worker: opt.GpusPerWorker = None,
    on: opt.On = "local",
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:LabelKeys")] = False,
) -> None:
    """Certify training inputs with every expert, to teach a router; continues when the command is repeated.

    Example: `sigmax label systems/quarter systems/half systems/one --data cifar10:~/cifar --out labels`
    """
    from sigmax import data as sources
    from sigmax.cli.train.keys import LabelKeys, given
    from sigmax.config import with_changes
    from sigmax.jobs.label.labels import make_labels
    from sigmax.radius import Uniform

    own = given(n=n, alpha=alpha, device=device, dtype=dtype)
    asked = with_changes(LabelKeys(), [*own, *(changes or [])])
    names, experts = _experts(systems, asked.how("cpu"))
    machines: dict[str, Any] = {"workers": workers, "gpus_per_worker": gpus_per_worker, "backend": on}
    for expert in experts:  # cheap, so before any image is read
        expert.check_question(n0=asked.n0, n=asked.n, alpha=asked.alpha, sampling=asked.question)
    dataset = sources.load(data, split, size=asked.image_size)
    with resumable(f"Every input finished so far is kept in {out}."), progress(f"label {out.name}") as watch:
        labels = make_labels(experts, dataset, out, **asked.request, **machines, watch=watch)
    console.print(_labels_table(labels, names))
    say(f"Dropped, since no expert certifies them: {100 * labels.dropped:.1f}%. 'Best for' is of the others.")
    level = max(expert.rule.largest_noise for expert in experts) or "SIGMA"  # at least as much as any expert's
    noise = f"uniform:{level}" if experts[0].rule.norm == Uniform.norm else level
    following = f"sigmax train router --labels {out} --data {data} --sigma {noise} --out ROUTER.safetensors"
    say(f"Labels: {out}. Next: {following}")


def choose(
    labels: Folder,
    k: Annotated[int, typer.Option("--k", help="How many noise levels to choose.")] = 3,
    radii: Annotated[str | None, typer.Option(help="Go by accuracy at radii, as 0.25,0.5 (default: by ACR).")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Also try every set, to see what greedy misses.")] = False,
) -> None:
    """Choose the noise levels that are worth an expert, from labels of a grid of them.

    Example: `sigmax choose labels --k 3`
    """
    from sigmax.jobs.label.labels import read_labels
    from sigmax.train.choose import choose_sigmas

    objective = opt.radii(radii, "--radii") or "acr"
    choice = choose_sigmas(read_labels(labels), k, objective, exact=exact)
    console.print(_choice_table(choice))
    say(f"Attained: {choice.objective} if the router never erred; the whole grid attains {choice.whole:.4f}.")
    say(f"Chosen: sigma {', '.join(f'{sigma:g}' for sigma in choice.sigmas)}")


def _experts(systems: Sequence[str], how: Mapping[str, Any]) -> "tuple[list[str], list[Scheme]]":
    """What to call the experts, and the experts."""
    from sigmax.schemes.dual import Dual
    from sigmax.systems import load

    loaded = [load(system, **how) for system in systems]
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
