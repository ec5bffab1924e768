"""Tables on the terminal: as wide as it is, and what has no room is named below."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from sigmax.cli.progress import console

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.records.run import Run

Columns = dict[str, list[str]]

# As `compare` calls them, and as a terminal has room for.
SHORT = {"ACR top 10%": "top 10%", "mean samples": "samples"}
FEWEST_RADII = 2  # columns of accuracies
SHARED = ("sigma", "n", "alpha", "inputs")  # printed once, below the table, where all runs agree
WRAPS = {"name": 20, "scheme": 14, "assumes": 12, "sigma": 8}  # text may take lines of so many letters; numbers never
# in turn, before any radius
LEFT_OUT = (
    ("top 10%",),
    ("ACR", "mean radius"),
    ("alpha",),
    ("inputs",),
    ("n", "samples"),
    ("seconds",),
    ("sigma",),
    ("abstained",),
)
AROUND = 2  # letters between two columns
MEAN_RADIUS = "mean radius"  # the column that stands in place of ACR where there are no labels
TOP = "top 10%: how much of ACR, in %, the easiest tenth of the inputs contributes"
CAUTION = "ACR favours the easiest inputs; compare accuracies"


def summary_table(runs: "Sequence[Run]") -> Table:
    """Certified accuracy at the usual radii, a row a run, as `sigmax.report.compare` gives it."""
    from sigmax import report
    from sigmax.report.runs import norm_of

    return shown(report.compare(runs), norm=norm_of(runs))


def shown(frame: "pd.DataFrame", *, norm: str) -> Table:
    """What `sigmax.report.compare` gave of runs with radii in this norm."""
    columns = as_text(frame)
    if "samples" in columns:  # sampling could stop early: n is the most that a stage takes
        limited = zip(columns["n"], frame["mean samples"], strict=True)
        columns["n"] = [n if math.isnan(samples) else f"<= {n}" for n, samples in limited]
    same = {name: columns.pop(name)[0] for name in SHARED if len(set(columns.get(name, ()))) == 1}
    columns["name"], titles = _shortened(columns["name"])
    notes = [", ".join(f"{name} {value}" for name, value in same.items()), ", ".join(titles)]
    return fitted(columns, notes, norm=norm)


def as_text(frame: "pd.DataFrame") -> Columns:
    """The cells as the report prints them, by the names that a terminal has room for."""
    from sigmax.report.tables import shown as cell

    return {SHORT.get(str(c), str(c)): [cell(str(c), v, acr_decimals=3) for v in frame[c]] for c in frame.columns}


def fitted(columns: Columns, notes: Sequence[str], *, norm: str) -> Table:
    """A table as wide as the terminal: columns are left out before radii, and radii before names are cut."""
    kept, left_out = _fitting(columns, console.width)
    on_acr = TOP if "top 10%" in kept else CAUTION if "ACR" in kept else ""
    more = f"a wider terminal also shows {left_out}" if left_out else ""
    caption = "\n".join(filter(None, [*notes, on_acr, more])) or None
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
    words = "certified for any class (no labels)," if MEAN_RADIUS in columns else "certified accuracy"
    table = Table(title=f"{words} in % at {norm} radius", caption=caption, caption_justify="left", **look)
    widths = _widths(kept, console.width)
    for column, width in widths.items():
        text = column in WRAPS
        table.add_column(column, justify="left" if text else "right", no_wrap=not text, overflow="fold", width=width)
    broken = ([_broken(cell, widths[column]) for cell in cells] for column, cells in kept.items())
    for row in zip(*broken, strict=True):
        table.add_row(*map(Text, row))
    return table


def _broken(text: str, width: int) -> str:
    """The text in lines that end after a separator of its words, where the words are short enough."""
    lines = [""]
    for word in re.findall(r"[^-_/ ]*[-_/ ]+|[^-_/ ]+", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _fitting(columns: Columns, width: int) -> tuple[Columns, str]:
    """The columns that fit, and those that do not, in words."""
    gone: set[str] = set()
    for group in ((), *LEFT_OUT):
        gone |= columns.keys() & set(group)
        kept = _without(columns, gone)
        if _width(kept) <= width:
            return kept, ", ".join(name for name in columns if name in gone)
    radii = [name for name in columns if name[:1].isdigit()]
    for most in range(len(radii) - 1, FEWEST_RADII - 1, -1):
        hidden = [radius for radius in radii if radius not in _spread(radii, most)]
        kept = _without(columns, gone | set(hidden))
        if _width(kept) <= width or most == FEWEST_RADII:
            few = f"the {'radius' if len(hidden) == 1 else 'radii'} {', '.join(hidden)}"
            return kept, ", ".join([*(name for name in columns if name in gone), few])
    return kept, ", ".join(name for name in columns if name in gone)


def _without(columns: Columns, gone: set[str]) -> Columns:
    return {name: cells for name, cells in columns.items() if name not in gone}


def _spread(radii: list[str], most: int) -> list[str]:
    """So many radii, spread evenly from the first to the last."""
    return [radii[round(place * (len(radii) - 1) / (most - 1))] for place in range(most)]


def _widths(columns: Columns, width: int) -> dict[str, int]:
    """The letters of each column; what is to spare goes to texts that would otherwise take several lines."""
    spare = max(0, width - _width(columns))
    widths = {name: _least(name, cells) for name, cells in columns.items()}
    for name in (name for name in WRAPS if name in columns):
        more = min(spare, max(map(len, columns[name])) - widths[name])
        widths[name], spare = widths[name] + max(0, more), spare - max(0, more)
    return widths


def _width(columns: Columns) -> int:
    """The letters that a table takes at the least."""
    return sum(AROUND + _least(name, cells) for name, cells in columns.items())


def _least(name: str, cells: list[str]) -> int:
    longest = max(map(len, cells))
    return max(len(name), min(longest, WRAPS.get(name, longest)))


def _shortened(names: list[str]) -> tuple[list[str], list[str]]:
    """Names that leave room for the numbers, and what the shortened ones stand for."""
    from sigmax.report.compare.diagnosis import ENVELOPE, ORACLE

    titles = [title for title in (ORACLE, ENVELOPE) if any(name.startswith(title) for name in names)]
    for title in titles:
        names = [name.replace(title, title.partition(" (")[0]) for name in names]
    return names, titles
