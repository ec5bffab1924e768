"""How every figure looks (colours, dashes, legends), sizes for papers, and files that a printer takes.

Every `draw...` of this package takes axes: `draw_ecdf(runs, axes(columns=1))`, then `save(ax, "figures/p_A")`.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import cycle, product
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sigmax.errors import RequestError, needs
from sigmax.files import written_whole
from sigmax.records.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# Okabe & Ito's colours, distinct with any kind of colour vision; dashes once they are used up.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
SHADE, FEW = 0.18, 4  # how dark a band is, and how many of them leave the lines to be seen; more are fainter
WIDTH, HEIGHT = 7.2, 4.5  # inches
MANY, LONG = 6, 40  # names in a legend, and letters in one, that the axes have room for
NARROW = 5.0  # inches, below which half as many fit
BELOW = 120  # letters of a line below the axes
LINE = 7  # letters that the line before a name takes, and a gap
GROWS = "grows"  # the mark of a figure that may become higher
SYMBOLS = {"l1": r"$\ell_1$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}  # of norms; others by their names
ACCURACY = "certified accuracy (%)"
CERTIFIED = "certified for any class (%)"  # of runs without labels
GREYS = ("0.35", "0.6")  # what is no certificate: grey, dashed, without a band
COLUMNS = {1: 3.35, 2: 6.9}  # inches: what conference and journal styles leave for one column and for both
TEXT, TICKS = {1: 8, 2: 9}, {1: 7, 2: 8}  # points, as printed
SHAPE = {1: 0.72, 2: 0.52}  # height over width
DOTS = 300  # an inch, in the PNG
METADATA: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "png": {"Software": None}}  # no date, no version

Step = Literal["pre", "post"]


def styles() -> Iterator[tuple[Any, str]]:
    """Dash and colour of one run after the other."""
    yield from cycle(product(DASHES, COLOURS))


def norm_symbol(runs: Iterable[Run]) -> str:
    """The norm of the runs' radii as an axis names it."""
    return " / ".join(SYMBOLS.get(norm, norm) for norm in dict.fromkeys(run.plan.norm for run in runs))


def radius_label(runs: Iterable[Run]) -> str:
    """What an axis of radii is called."""
    return f"{norm_symbol(runs)} radius (pixels in [0, 1])"


def given_or_new(ax: "Axes | None") -> "Axes":
    """The axes to draw into, in a figure of their own if none are given."""
    return new_figure().add_subplot() if ax is None else ax


def draw_steps(ax: "Axes", x: ArrayLike, share: ArrayLike, name: str, *, falls: bool = True, **look: Any) -> None:
    """A falling step function: a share holds from the place before up to its own, and the last falls to 0."""
    at, percent = np.asarray(x), 100 * np.asarray(share)
    line = (np.append(at, at[-1]), np.append(percent, 0.0)) if falls else (at, percent)
    ax.step(*line, where="pre", label=label(name), **{"linewidth": 1.8, "zorder": 3, **look})


def draw_band(
    ax: "Axes", x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, *, shade: float = SHADE, step: Step = "pre"
) -> None:
    """The interval from `low` to `high` around such a function."""
    edges = 100 * np.asarray(low), 100 * np.asarray(high)
    ax.fill_between(np.asarray(x), *edges, step=step, color=colour, alpha=shade, linewidth=0)


def dress(ax: "Axes", x: str, y: str, left: float = 0.0, right: float | None = None) -> None:
    """The same for shares in %."""
    ax.set_xlim(left, right)
    ax.set_ylim(0, 100)
    plain(ax, x, y)


def label(name: str) -> str:
    """The name as matplotlib shows it: no formula, and in the legend though it may begin with an underscore."""
    plainly = name.replace("$", r"\$")
    return f" {plainly}" if plainly.startswith("_") else plainly


def plain(ax: "Axes", x: str, y: str) -> None:
    """What stands at the axes, a light grid behind the lines, and no frame where no axis is."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
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
    """A figure without a given height grows by a legend below its axes, which keep their own."""
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
    drawing = needs("matplotlib.figure", extra="plot", why="to draw")
    figure: Figure = drawing.Figure(figsize=(width, height), layout="constrained")
    figure.set_gid(GROWS)
    return figure


def axes(columns: int = 1, *, height: float | None = None) -> "Axes":
    """Empty axes in a figure of their own, as wide as one or two columns of a paper, with text of 7 to 9 points.

    Without `height` (inches) a legend of many names makes the figure higher rather than its curves lower.
    """
    if columns not in COLUMNS:
        raise RequestError(f"columns must be 1 or 2, the columns of a paper that the figure spans; got {columns!r}")
    width = COLUMNS[columns]
    figure = new_figure(width, SHAPE[columns] * width if height is None else height)
    if height is not None:
        figure.set_gid(None)  # it stays as high as asked for, whatever the legend needs
    ax = figure.add_subplot()
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(TEXT[columns])
        axis.get_offset_text().set_fontsize(TICKS[columns])  # tick_params forgets it
    ax.title.set_fontsize(TEXT[columns])
    ax.tick_params(labelsize=TICKS[columns])
    return ax


def save(ax: "Axes", path: str | Path) -> list[Path]:
    """Write the figure of `ax` as PATH.pdf and PATH.png; without a date, so the same records give the same bytes."""
    written = []
    for kind in METADATA:
        target = Path(path).with_name(f"{Path(path).name}.{kind}")
        with written_whole(target) as draft:
            draft.write_bytes(picture(whole_figure(ax), kind))
        written.append(target)
    return written


def picture(figure: "Figure", kind: str, *, dots: int = DOTS) -> bytes:
    """The figure as a file of this kind; the same figure gives the same bytes."""
    import matplotlib

    buffer = BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=dots, metadata=METADATA[kind])
    return buffer.getvalue()
