"""Certified accuracy drawn against the radius, with the uncertainty that comes from certifying few inputs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_interval, certified_radii
from sigmax.report.questions import furthest_asked, up_to
from sigmax.report.runs import Source, named
from sigmax.report.study import Line, Study, study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# Okabe & Ito's colours, told apart with any kind of colour vision; dashes once they are used up.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
SHADE, FEW = 0.18, 4  # how dark a band is, and how many of them leave the lines to be seen; more are fainter
WIDTH, HEIGHT = 7.2, 4.5  # inches
MANY, LONG = 6, 40  # names in a legend, and letters in one, that the axes have room for
NARROW = 5.0  # inches, below which half as many fit
BELOW = 120  # letters of a line below the axes
LINE = 7  # letters that the line before a name takes, and a gap
GROWS = "grows"  # the mark of a figure that may become higher than it was made
RADIUS = r"$\ell_2$ radius (pixels in [0, 1])"
GREYS = ("0.35", "0.6")  # what is no certificate: grey, dashed, without a band


def draw(runs: Source | Iterable[Source], ax: "Axes | None" = None, *, level: float = 0.95) -> "Axes":
    """Draw the runs' certified accuracy into `ax`, or into a figure of its own (`ax.figure`), and return the axes.

    The band is the Clopper-Pearson interval at `level` over inputs, at each radius by itself. Where a dual run is
    among the runs of all its experts, dashed grey lines show its oracle and envelope; see `diagnose`.
    """
    by_name = named(runs)
    ax = new_figure().add_subplot() if ax is None else ax
    draw_all(by_name, study(by_name), ax, level=level)
    return ax


def draw_all(runs: Mapping[str, Run], found: Study, ax: "Axes", *, level: float = 0.95) -> None:
    """The runs' curves, and the lines to hold them against."""
    shade = SHADE * min(1.0, FEW / max(1, len(runs)))
    for (name, run), look in zip(runs.items(), styles(), strict=False):
        _draw_one(ax, run, name, level, look, shade=shade)
    for line, grey, dash in zip(found.lines, cycle(GREYS), cycle(DASHES[1:]), strict=False):
        _draw_reference(ax, line, grey, dash)
    _dress(ax, level)


def styles() -> Iterator[tuple[Any, str]]:
    """Dash and colour of one run after the other."""
    yield from cycle(product(DASHES, COLOURS))


def _draw_one(ax: "Axes", run: Run, name: str, level: float, look: tuple[Any, str], *, shade: float) -> None:
    """A run that was asked about some radii only has a line up to the largest of them."""
    (dash, colour), end = look, furthest_asked(run)
    radius = up_to(np.unique(np.append(0.0, certified_radii(run))), end)
    curve = certified_interval(run, radius, level=level)
    steps = radius, curve["accuracy"].to_numpy()
    draw_steps(ax, steps, name, falls=math.isinf(end), color=colour, linestyle=dash)
    low, high = 100 * curve["low"].to_numpy(), 100 * curve["high"].to_numpy()
    ax.fill_between(radius, low, high, step="pre", color=colour, alpha=shade, linewidth=0)


def _draw_reference(ax: "Axes", line: Line, grey: str, dash: object) -> None:
    end = furthest_asked(*line.experts)
    radii = up_to(line.curve.steps()[0], end)
    steps = radii, line.curve.counts(radii) / line.curve.inputs
    look = {"color": grey, "linestyle": dash, "linewidth": 1.3, "zorder": 4}
    draw_steps(ax, steps, line.name, falls=math.isinf(end), **look)


def draw_steps(ax: "Axes", steps: tuple[Floats, Floats], name: str, *, falls: bool = True, **look: Any) -> None:
    """A falling step function: a share holds from the place before up to its own, and the last falls to 0."""
    x, share = steps
    line = (np.append(x, x[-1]), np.append(100 * share, 0.0)) if falls else (x, 100 * share)
    ax.step(*line, where="pre", label=label(name), **{"linewidth": 1.8, "zorder": 3, **look})


def label(name: str) -> str:
    """The name as matplotlib shows it: no formula, and in the legend though it may begin with an underscore."""
    plainly = name.replace("$", r"\$")
    return f" {plainly}" if plainly.startswith("_") else plainly


def _dress(ax: "Axes", level: float) -> None:
    ax.set_xlabel(RADIUS)
    ax.set_ylabel("certified accuracy (%)")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 100)
    plain(ax)
    quiet_legend(ax, f"band: {100 * level:g}% interval over inputs")


def plain(ax: "Axes") -> None:
    """A light grid behind the lines, and no frame where no axis is."""
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def quiet_legend(ax: "Axes", title: str) -> None:
    """A legend that covers nothing more than it must: one of many or long names stands below the axes."""
    handles, names = ax.get_legend_handles_labels()
    longest = max(map(len, names), default=0)
    room = 0.5 if whole_figure(ax).get_figwidth() < NARROW else 1.0
    below = len(names) > room * MANY or longest > room * LONG
    place: dict[str, Any] = {}
    if below:
        widest = int(room * BELOW) - LINE
        names = ["\n".join(wrap(name, widest)) for name in names]
        columns = max(1, min(5, (widest + LINE) // (min(longest, widest) + LINE)))
        # Five letters' height below the axes: room for the labels of ticks and axis, however high the figure.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 5, "ncols": columns}
    size = "small" if room == 1 and not below else "x-small"
    legend = ax.legend(handles, names, title=title, fontsize=size, title_fontsize=size, **place)
    legend.set_alignment("left")
    legend.get_frame().set(edgecolor="none", alpha=0.7)
    if below:
        _make_room(whole_figure(ax), legend)


def _make_room(figure: "Figure", legend: "Legend") -> None:
    """A figure whose height nobody asked for grows by a legend below its axes, which keep their own."""
    if figure.get_gid() == GROWS:
        figure.set_gid(None)  # once
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


def whole_figure(ax: "Axes") -> "Figure":
    """The figure that the axes are in, also where they are in a part of it."""
    from matplotlib.figure import Figure

    figure = ax.figure.figure
    assert isinstance(figure, Figure)
    return figure


def new_figure(width: float = WIDTH, height: float = HEIGHT) -> "Figure":
    """An empty figure, not pyplot's: nothing global is touched and no display is needed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RequestError("drawing needs matplotlib: pip install 'sigmax[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_gid(GROWS)
    return figure
