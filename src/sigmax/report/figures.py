"""Figures for papers: sizes of one and two columns, and files that a printer takes.

Every `draw...` of this package takes axes: `draw_ecdf(runs, axes(columns=1))`, then `save(ax, "figures/p_A")`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.report.plot import new_figure, whole_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = {1: 3.35, 2: 6.9}  # inches: what conference and journal styles leave for one column and for both
TEXT, TICKS = {1: 8, 2: 9}, {1: 7, 2: 8}  # points, as printed
SHAPE = {1: 0.72, 2: 0.52}  # height over width
DOTS = 300  # an inch, in the PNG


def axes(columns: int = 1, *, height: float | None = None) -> "Axes":
    """Empty axes in a figure of their own, as wide as one or two columns of a paper (3.35 or 6.9 inches).

    Print it unscaled and its text is 7 to 9 points. Without `height` (inches) the shape is pleasant, and a legend
    of many names makes the figure higher rather than its curves lower.
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
    """Write the figure of `ax` as PATH.pdf and PATH.png, folders made if need be; returns both paths.

    The PDF's text stays text, with its fonts inside; the PNG has 300 dots an inch. Neither holds a date: the same
    records give the same bytes.
    """
    import matplotlib

    figure, stem, written = whole_figure(ax), Path(path), []
    quiet = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
    for kind, metadata in quiet.items():
        target = stem.with_name(f"{stem.name}.{kind}")
        with written_whole(target) as draft, matplotlib.rc_context({"pdf.fonttype": 42}):
            figure.savefig(draft, format=kind, dpi=DOTS, metadata=metadata)
        written.append(target)
    return written
