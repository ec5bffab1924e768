"""Certified accuracy, distributions of p_A and the cost of runs drawn, with the uncertainty over inputs."""

import math
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.compare.diagnosis import RoutingAnalysis, routing_analysis
from sigmax.report.metrics.accuracy import LEVEL, certified_curve, measure
from sigmax.report.metrics.adaptive import furthest_asked
from sigmax.report.metrics.distribution import ecdf
from sigmax.report.metrics.shares import by_class
from sigmax.report.plots import style
from sigmax.report.runs import Source, load, named
from sigmax.rules.registry import entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARE = r"$p$, a share of noisy copies in the true class"
AT_LEAST = r"inputs with $p_A \geq p$ (%)"
BINS = 30
HALF = 0.5  # where certificates begin


def draw(runs: Source | Iterable[Source], ax: "Axes | None" = None) -> "Axes":
    """Draw the runs' certified accuracy into `ax`, or into a figure of its own (`ax.figure`), and return the axes.

    The band is the 95% Clopper-Pearson interval over inputs, at each radius by itself. Where a dual run is among the
    runs of all its experts, dashed grey lines show its oracle and envelope; see `diagnose`.
    """
    by_name = named(runs)
    return draw_all(by_name, routing_analysis(by_name), style.given_or_new(ax))


def draw_all(runs: Mapping[str, Run], found: RoutingAnalysis, ax: "Axes") -> "Axes":
    """The runs' curves, and the lines to hold them against; where only some radii were asked about, up to the last."""
    shade = style.SHADE * min(1.0, style.FEW / max(1, len(runs)))
    for (name, run), (dash, colour) in zip(runs.items(), style.styles(), strict=False):
        curve = certified_curve(run)
        falls = math.isinf(furthest_asked(run))
        style.draw_steps(ax, curve["radius"], curve[measure(run)], name, falls=falls, color=colour, linestyle=dash)
        style.draw_band(ax, curve["radius"], curve["low"], curve["high"], colour, shade=shade)
    for line, grey, dash in zip(found.lines, cycle(style.GREYS), cycle(style.DASHES[1:]), strict=False):
        look: dict[str, Any] = {"color": grey, "linestyle": dash, "linewidth": 1.3, "zorder": 4}
        style.draw_steps(ax, *line.steps(), line.name, falls=math.isinf(line.end), **look)
    share = style.ACCURACY if all(run.labelled for run in runs.values()) else style.CERTIFIED
    style.dress(ax, style.radius_label(runs.values()), share)
    style.quiet_legend(ax, f"band: {100 * LEVEL:g}% interval over inputs")
    return ax


def draw_ecdf(runs: Source | Iterable[Source], ax: "Axes | None" = None, *, start: float = HALF) -> "Axes":
    """The share of inputs with p_A >= p, one line a run, from `start` to 1; see `ecdf`.

    One half is where certificates begin. The band is the 95% Clopper-Pearson interval over inputs, at each
    p by itself.
    """
    ax = style.given_or_new(ax)
    for (name, run), (dash, colour) in zip(named(runs).items(), style.styles(), strict=False):
        frame = _from(run, start)
        style.draw_steps(ax, frame["p"], frame["share"], name, color=colour, linestyle=dash)
        style.draw_band(ax, frame["p"], frame["low"], frame["high"], colour)
    style.dress(ax, SHARE, AT_LEAST, start, 1.0)
    style.quiet_legend(ax, f"band: {100 * LEVEL:g}% over inputs")
    return ax


def draw_ecdf_by_class(run: Source, ax: "Axes | None" = None) -> "Axes":
    """The same for each true class of one run, named as the data name it; bands would hide each other."""
    run, ax = load(run), style.given_or_new(ax)
    names = list(run.plan.data.get("classes") or ())
    for (of, own), (dash, colour) in zip(by_class(run).items(), style.styles(), strict=False):
        name = str(names[of]) if of < len(names) else f"class {of}"
        frame = _from(own, HALF)
        style.draw_steps(ax, frame["p"], frame["share"], name, color=colour, linestyle=dash, linewidth=1.3)
    style.dress(ax, SHARE, AT_LEAST, HALF, 1.0)
    style.quiet_legend(ax, "true class")
    return ax


def _from(run: Run, start: float) -> pd.DataFrame:
    """The steps of the distribution from `start` on, with what holds at `start` itself before them."""
    steps = ecdf(run)["p"].to_numpy()
    return ecdf(run, np.append(start, steps[steps > start]))


def draw_samples(runs: Source | Iterable[Source], ax: "Axes | None" = None) -> "Axes":
    """A histogram of the votes cast an input, all stages together, one line a run; the legend has the mean.

    Fixed sampling makes one bar, or one for each number of experts asked; adaptive sampling many. Deterministic
    runs and imported logs hold no votes and are refused.
    """
    by_name = named(runs)
    for name, run in by_name.items():
        if run.plan.imported or not entry(run.plan.method).votes:
            raise RequestError(f"{name} holds no votes (its scheme: {run.plan.method}); leave it out")
    samples = {name: np.array([record.certificate.samples for record in run.records]) for name, run in by_name.items()}
    ax = style.given_or_new(ax)
    edges = np.linspace(0, 1.02 * max(int(of.max()) for of in samples.values()), BINS + 1)
    for (name, of), (dash, colour) in zip(samples.items(), style.styles(), strict=False):
        share, text = 100 * np.histogram(of, edges)[0] / len(of), f"{name}: {of.mean():,.0f}"
        ax.stairs(share, edges, color=colour, linestyle=dash, linewidth=1.6, label=style.label(text))
    style.dress(ax, "votes cast for an input", "inputs (%)")
    ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
    style.quiet_legend(ax, "votes on average")
    return ax
