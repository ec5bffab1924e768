"""What a run cost, drawn: how many votes each input took."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sigmax.errors import RequestError
from sigmax.report.plot import label, new_figure, plain, quiet_legend, styles
from sigmax.report.runs import Source, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 30


def draw_draws(runs: Source | Iterable[Source], ax: "Axes | None" = None) -> "Axes":
    """A histogram of the votes cast an input, all stages together, one line a run; the legend has the mean.

    Fixed sampling makes one bar, or one for each number of experts asked; adaptive sampling many. Deterministic
    runs and imported logs hold no votes and are refused.
    """
    by_name = named(runs)
    draws = {name: np.array([record.certificate.draws for record in run.records]) for name, run in by_name.items()}
    for name, run in by_name.items():
        if run.plan.method in ("imported", "lipschitz"):
            raise RequestError(f"{name} holds no votes (its scheme: {run.plan.method}); leave it out")
    ax = new_figure().add_subplot() if ax is None else ax
    edges = np.linspace(0, 1.02 * max(int(of.max()) for of in draws.values()), BINS + 1)
    for (name, of), (dash, colour) in zip(draws.items(), styles(), strict=False):
        share = 100 * np.histogram(of, edges)[0] / len(of)
        text = f"{name}: {of.mean():,.0f}"
        ax.stairs(share, edges, color=colour, linestyle=dash, linewidth=1.6, label=label(text))
    ax.set_xlabel("votes cast for an input")
    ax.set_ylabel("inputs (%)")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 100)
    ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
    plain(ax)
    quiet_legend(ax, "votes on average")
    return ax
