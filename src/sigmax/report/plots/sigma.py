"""What the choice of noise does, drawn: to single inputs, to all of them, and to the best that can be had."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sigmax.errors import RequestError
from sigmax.report.compare.best import best_sigma, envelope_of, on_the_same_inputs, oracle_of, radii_by_sigma
from sigmax.report.metrics.accuracy import LEVEL, interval
from sigmax.report.metrics.radii import true_radii
from sigmax.report.plots import style
from sigmax.report.runs import Source, load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX"
MANY = 12  # inputs in one picture that can still be distinguished
SIGMA = r"noise $\sigma$"


def draw_radius_by_sigma(runs: Iterable[Source], inputs: Sequence[int], ax: "Axes | None" = None) -> "Axes":
    """The radius certified for the true class of each of `inputs` (by index), against the noise of the runs.

    Needs runs of one noise level each. A radius of 0 is an input that was not certified for its true class.
    """
    loaded = [load(run) for run in runs]
    frame = radii_by_sigma(loaded)
    missing = [index for index in inputs if index not in frame.index]
    if not inputs or missing or len(inputs) > MANY:
        raise RequestError(
            f"expected 1 to {MANY} indices of inputs that every run holds; "
            + (f"{missing} are not among them" if missing else f"got {len(inputs)}")
        )
    ax = style.given_or_new(ax)
    for place, (index, (dash, colour)) in enumerate(zip(inputs, style.styles(), strict=False)):
        look = {"color": colour, "linestyle": dash, "marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        ax.plot(frame.columns, frame.loc[index], label=f"input {index}", linewidth=1.5, clip_on=False, **look)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    style.plain(ax, SIGMA, f"certified {style.norm_symbol(loaded)} radius")
    style.quiet_legend(ax, "0: not certified for the true class")
    return ax


def draw_best_sigma(runs: Iterable[Source], ax: "Axes | None" = None) -> "Axes":
    """How often each noise level certifies an input furthest, in % of inputs, and how often none does.

    The bars' whiskers are 95% Clopper-Pearson intervals over inputs. Needs runs of one noise level each.
    """
    runs = list(runs)
    best = best_sigma(runs)
    sigmas = radii_by_sigma(runs).columns.to_numpy(dtype=np.float64)
    k = np.array([*((best == sigma).sum() for sigma in sigmas), best.isna().sum()])
    low, high = interval(k, len(best))
    share = k / len(best)
    ax = style.given_or_new(ax)
    colours = [style.COLOURS[0]] * len(sigmas) + [style.GREYS[1]]
    whiskers = 100 * np.maximum(0.0, [share - low, high - share])
    names = [*(f"{sigma:g}" for sigma in sigmas), "none"]
    ax.bar(names, 100 * share, yerr=whiskers, color=colours, capsize=3, width=0.7)
    ax.set_ylim(0, 100)
    style.plain(ax, rf"{SIGMA} with the largest radius (whiskers: {100 * LEVEL:g}%)", "inputs (%)")
    return ax


def draw_envelope(runs: Iterable[Source], ax: "Axes | None" = None) -> "Axes":
    """Certified accuracy of the runs, of the best of them at each radius and of the best for each input.

    The envelope (best over sigma) is what choosing the noise for a radius reaches; the oracle what choosing it for
    each input by its true class would. Neither is a certificate. On the inputs that all runs hold.
    """
    shared = on_the_same_inputs(runs)
    ax = style.given_or_new(ax)
    for (name, run), (dash, colour) in zip(shared.items(), style.styles(), strict=False):
        style.draw_steps(ax, *envelope_of([run]).steps(), name, color=colour, linestyle=dash)
    best = np.max([true_radii(run) for run in shared.values()], axis=0)
    lines = {"envelope": envelope_of(list(shared.values())), "oracle": oracle_of(best)}
    for (name, curve), grey, dash in zip(lines.items(), ("black", style.GREYS[0]), style.DASHES[1:], strict=False):
        style.draw_steps(ax, *curve.steps(), name, color=grey, linestyle=dash, linewidth=1.3, zorder=4)
    style.dress(ax, style.radius_label(shared.values()), style.ACCURACY)
    style.quiet_legend(ax, "envelope, oracle: no certificates")
    return ax
