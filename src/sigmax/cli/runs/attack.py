"""`sigmax attack`: search certified balls for points that refute them, and beyond for how loose they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, console, progress, resumable, say
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.jobs.attack import Attacked, AttackResult

SHOWN = 20  # rows printed, the smallest ratios first; all are in results.json
FIGURE = "ratios"


def attack(
    run: Annotated[Path, typer.Argument(help="A finished run file, plain or gzipped.", metavar="RUN")],
    system: opt.System,
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write results to, or to continue an attack in.")],
    maximum: Annotated[int | None, typer.Option("--max", help="Only the first so many inputs of the run.")] = None,
    steps: Annotated[int, typer.Option(help="Gradient steps in each ball; 0: predictions alone.")] = 20,
    restarts: Annotated[int, typer.Option(help="Starts of the gradient steps, and random directions.")] = 3,
    samples: Annotated[int, typer.Option(help="Noises that a gradient is averaged over.")] = 16,
    walk: Annotated[int, typer.Option(help="Steps of the random walk along the boundary.")] = 15,
    n: Annotated[int, typer.Option("--n", help="Samples of a prediction.")] = 1_000,
    alpha: Annotated[float, typer.Option(help="Chance that a prediction is wrong.")] = 1e-3,
    confirmations: Annotated[int, typer.Option(help="Fresh predictions that must all answer another class.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the search; predictions have secret ones.")] = 0,
    image_size: opt.ImageSize = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = "fp32",
    compile_: opt.Compile = "off",
    code: opt.Code = None,
) -> None:
    """Search around the certified inputs of a run for points that are answered as another class.

    A confirmed point inside a certified ball is saved, and the verb exits 1. An interrupted attack goes on when
    repeated.

    Example: `sigmax attack runs/digits.jsonl zoo:digits-cascade --data digits --out attacks/digits`
    """
    from sigmax import data as sources
    from sigmax import systems
    from sigmax.jobs.attack import Attack, attack_run
    from sigmax.records.run import read

    if out.is_file():
        raise RequestError(f"--out names a folder, and {out} is a file; name another place")
    there = read(run)
    options = Attack(steps, restarts, samples, walk, n, alpha, confirmations, seed)
    scheme = systems.load(system, device=device, dtype=dtype, batch=batch, compile=compile_, code=code or ())
    dataset = sources.load(data, str(there.plan.data.get("split")), size=image_size)
    with resumable(f"Every input finished so far is kept in {out}."), progress(f"attack {run.name}") as watch:
        result = attack_run(there, scheme, dataset, out, options=options, maximum=maximum, watch=watch)
    _conclude(result)


def _conclude(result: "AttackResult") -> None:
    """The smallest ratios, what they amount to, the figure; exit 1 where a certificate was refuted."""
    import numpy as np

    rows = sorted(result.rows, key=lambda row: (row.ratio is None, row.ratio or 0.0))
    console.print(_table(rows[:SHOWN]))
    ratios, missing = result.ratios, len(result.rows) - len(result.ratios)
    if ratios:
        low, middle, high = np.quantile(ratios, (0.0, 0.5, 1.0))
        say(f"attack distance / radius: smallest {low:.3f}, median {middle:.3f}, largest {high:.3f}")
        _draw(result, missing)
    if missing:
        say(f"for {missing} inputs no point of another class was found")
    say(f"Results: {result.folder}")
    if not result.verdict.violations:
        say(str(result.verdict))
        return
    for row in rows:
        if row.violation:
            saved = result.folder / f"violation-{row.index}.npz"
            complain(f"VIOLATION: input {row.index}, within {row.radius:g} of it; the point is {saved}", style="red")
    complain(str(result.verdict), style="red")
    raise typer.Exit(1)


def _table(rows: "list[Attacked]") -> Table:
    table = Table(caption="the smallest ratios; all are in results.json")
    for column in ("index", "class", "radius", "attack distance", "ratio", "answer there", "found by"):
        table.add_column(column, justify="left" if column == "found by" else "right")
    for row in rows:
        found = ("none found", "", "", "")
        if row.nearest is not None and row.ratio is not None:
            found = (f"{row.nearest:.4f}", f"{row.ratio:.3f}", str(row.answer), str(row.method))
        table.add_row(str(row.index), str(row.certified), f"{row.radius:.4f}", *found)
    return table


def _draw(result: "AttackResult", missing: int) -> None:
    """The histogram, where matplotlib is installed."""
    from sigmax import report

    try:
        ax = report.draw_attack_ratios(result.ratios, report.axes(columns=2), not_found=missing)
    except RequestError as error:
        say(f"no figure: {error}")
        return
    report.save(ax, result.folder / FIGURE)
