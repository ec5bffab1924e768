"""Distributions of p_A drawn: the picture of a model that no choice of n and alpha can flatter."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sigmax.records.run import Run
from sigmax.report.accuracy import Floats
from sigmax.report.distribution import ecdf
from sigmax.report.fairness import by_class
from sigmax.report.plot import draw_steps, new_figure, plain, quiet_legend, styles
from sigmax.report.runs import Source, load, named

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHARE = r"$p$, a share of noisy copies in the true class"


def draw_ecdf(
    runs: Source | Iterable[Source], ax: "Axes | None" = None, *, start: float = 0.5, level: float = 0.95
) -> "Axes":
    """The share of inputs with p_A >= p, one line a run, from `start` to 1; see `ecdf`.

    One half is where certificates begin. The band is the Clopper-Pearson interval at `level` over inputs, at each
    p by itself.
    """
    ax = new_figure().add_subplot() if ax is None else ax
    for (name, run), (dash, colour) in zip(named(runs).items(), styles(), strict=False):
        frame = _from(run, start, level)
        draw_steps(ax, _steps(frame), name, color=colour, linestyle=dash)
        low, high = 100 * frame["low"].to_numpy(), 100 * frame["high"].to_numpy()
        ax.fill_between(frame["p"], low, high, step="pre", color=colour, alpha=0.18, linewidth=0)
    _dress(ax, start)
    quiet_legend(ax, f"band: {100 * level:g}% over inputs")
    return ax


def draw_ecdf_by_class(run: Source, ax: "Axes | None" = None, *, start: float = 0.5) -> "Axes":
    """The same for each true class of one run, named as the data name it; bands would hide each other."""
    run = load(run)
    ax = new_figure().add_subplot() if ax is None else ax
    names = list(run.plan.data.get("classes") or ())
    for (of, own), (dash, colour) in zip(by_class(run).items(), styles(), strict=False):
        name = str(names[of]) if of < len(names) else f"class {of}"
        draw_steps(ax, _steps(_from(own, start, 0.95)), name, color=colour, linestyle=dash, linewidth=1.3)
    _dress(ax, start)
    quiet_legend(ax, "true class")
    return ax


def _from(run: Run, start: float, level: float) -> "pd.DataFrame":
    """The steps of the distribution from `start` on, with what holds at `start` itself before them."""
    steps = ecdf(run)["p"].to_numpy()
    return ecdf(run, np.append(start, steps[steps > start]), level=level)


def _steps(frame: "pd.DataFrame") -> tuple[Floats, Floats]:
    return frame["p"].to_numpy(), frame["share"].to_numpy()


def _dress(ax: "Axes", start: float) -> None:
    ax.set_xlabel(SHARE)
    ax.set_ylabel(r"inputs with $p_A \geq p$ (%)")
    ax.set_xlim(start, 1.0)
    ax.set_ylim(0, 100)
    plain(ax)
