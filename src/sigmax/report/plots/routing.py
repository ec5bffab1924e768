"""Routing drawn: how much radius is lost to the wrong expert, and how near the route may change."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.rounding import share_up
from sigmax.report.compare.diagnosis import RoutingAnalysis, routing_analysis
from sigmax.report.metrics.accuracy import LEVEL, Floats, interval
from sigmax.report.plots.style import WIDTH, draw_band, label, new_figure, plain, quiet_legend, styles
from sigmax.report.runs import Source, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOST = r"$\Delta R_c$: radius lost to the choice of expert"
NEAR = r"$\Delta R_\sigma$: distance of the next route minus the expert's radius"


def draw_routing(runs: Source | Iterable[Source]) -> "list[Axes]":
    """Empirical distributions of dRc and dRs over the inputs, one line a dual run; see `diagnose`.

    dRc needs the runs of the experts too: where no dual run has them there is only the panel of dRs. At dRc = 0 the
    line begins with the share of inputs sent to the best expert; left of dRs = 0 are those whose route may change
    before the expert's class does. The band is the 95% Clopper-Pearson interval, at each value by itself.
    """
    found = routing_analysis(named(runs))
    if not found.routings:
        raise RequestError("expected at least one run of a dual system; none of the runs has a router")
    return draw_analysis(found, new_figure(wide(found)))


def wide(found: RoutingAnalysis) -> float:
    """Inches for as many panels as there will be."""
    return 1.5 * WIDTH if found.diagnoses else WIDTH


def draw_analysis(found: RoutingAnalysis, figure: "Figure") -> "list[Axes]":
    """The panels into `figure`."""
    lost = {name: d.frame["dRc"].to_numpy() for name, d in found.diagnoses.items()}
    near = {name: frame["dRs"].dropna().to_numpy() for name, frame in found.routings.items()}
    panels = [(near, NEAR)] if not lost else [(lost, LOST), (near, NEAR)]
    axes = [figure.add_subplot(1, len(panels), place) for place in range(1, len(panels) + 1)]
    for ax, (values, what) in zip(axes, panels, strict=True):
        _panel(ax, values, what, found)
    if lost:
        axes[0].set_xlim(left=0)
        axes[0].axhline(100, color="black", linestyle="--", linewidth=1)  # every input sent to its best expert
    axes[-1].axvline(0, color="black", linestyle="--", linewidth=1)
    quiet_legend(axes[-1], f"radius limited by the router, in % of inputs\nband: {100 * LEVEL:g}% over inputs")
    return axes


def _panel(ax: "Axes", values: Mapping[str, Floats], what: str, found: RoutingAnalysis) -> None:
    everything = np.concatenate([[0.0], *values.values()])
    left, right = float(everything.min()), float(everything.max())
    # A run keeps its colour in both panels, though only some may be in the first.
    for name, (dash, colour) in zip(found.routings, styles(), strict=False):
        if name not in values:
            continue
        n = max(len(values[name]), 1)  # where no expert was asked there is nothing to draw but the name
        x, k = ecdf(values[name], left, right)
        limited = share_up(100 * float(found.routings[name]["bottleneck"].mean()))
        look = {"label": f"{label(name)}: {limited}%", "color": colour, "linestyle": dash, "linewidth": 1.8}
        ax.step(x, 100 * k / n, where="post", **look)
        draw_band(ax, x, *interval(k, n), colour, step="post")
    ax.set_ylim(0, 102)
    plain(ax, what, "inputs at or below (%)")


def ecdf(values: Floats, left: float, right: float) -> tuple[Floats, NDArray[np.int64]]:
    """The distinct values, rising, between `left` and `right`, and how many of all are at or below each."""
    x, times = np.unique(values, return_counts=True)
    return np.concatenate([[left], x, [right]]), np.concatenate([[0], np.cumsum(times), [len(values)]])
