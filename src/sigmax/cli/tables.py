"""Tables on the terminal."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sigmax.cli.progress import console
from sigmax.records.rounding import down, share_down, share_up

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.records.run import Run

# As `compare` calls them, and as a terminal has room for.
SHORT = {"ACR top 10%": "top 10%", "mean draws": "draws"}
MOST_RADII, FEWEST_RADII = 5, 3  # columns of accuracies
SHARED = ("sigma", "n", "alpha", "inputs")  # said once, below the table, where all runs agree
WRAPS = {"name": 20, "sigma": 8}  # text may take several lines, of so many letters at least; numbers never
LEFT_OUT = (
    ("alpha",),
    ("inputs",),
    ("n", "draws"),
    ("abstained",),
    ("ACR", "top 10%"),
    ("sigma",),
)  # in this order
AROUND = 3  # letters between two columns
CAUTION = "of ACR, a poor metric, the easiest tenth of the inputs makes the % below top 10%"
LOSSES = ("top 10%", "abstained")  # the less, the better: rounded up


def summary_table(runs: "Sequence[Run]") -> Table:
    """Certified accuracy at the usual radii, a row a run, as `sigmax.report.compare` gives it.

    A dual run among the runs of all its experts adds the rows of its oracle and envelope.
    """
    from sigmax import report

    return shown(report.compare(runs))


def shown(frame: "pd.DataFrame") -> Table:
    """What `sigmax.report.compare` gave, as wide as the terminal: columns are left out before names are cut."""
    frame = frame.astype(object).rename(columns=SHORT)
    if "draws" in frame:  # sampling could stop early: n is the most that a stage takes
        frame["n"] = [
            n if math.isnan(draws) else f"<= {n}" for n, draws in zip(frame["n"], frame["draws"], strict=True)
        ]
    same = [name for name in SHARED if name in frame and frame[name].nunique() == 1]
    said = [f"{name} {frame[name].iloc[0]}" for name in same]
    names, titles = _shortened([str(name) for name in frame["name"]])
    columns = {str(c): [_cell(str(c), value) for value in frame[c]] for c in frame.columns.drop(same)}
    kept, left_out = _fitting({**columns, "name": names}, console.width)
    more = [f"a wider terminal shows {', '.join(left_out)} too"] if left_out else []
    caution = [CAUTION] if "ACR" in kept else []
    table = Table(title="certified accuracy in % at l2 radius", caption=_lines(said, titles, caution, more))
    for column, width in _widths(kept, console.width).items():
        table.add_column(column, justify="right", no_wrap=column not in WRAPS, overflow="fold", width=width)
    for row in zip(*kept.values(), strict=True):
        table.add_row(*map(Text, row))
    return table


def _fitting(columns: dict[str, list[str]], width: int) -> tuple[dict[str, list[str]], list[str]]:
    """The columns that fit, and the names of those that do not: the fewer radii, the more of the others."""
    radii = [column for column in columns if column[:1].isdigit()]
    choices = [(), *LEFT_OUT]
    for dropped in range(len(choices)):
        gone = {name for group in choices[: dropped + 1] for name in group} & columns.keys()
        for most in range(MOST_RADII, FEWEST_RADII - 1, -1):
            thin = set(_thinned(radii, most))
            kept = {name: cells for name, cells in columns.items() if name not in thin | gone}
            if _width(kept) <= width:
                return kept, [name for name in columns if name in gone]
    return kept, [name for name in columns if name in gone]


def _widths(columns: dict[str, list[str]], width: int) -> dict[str, int]:
    """The letters of each column; what is to spare goes to texts that would otherwise take several lines."""
    spare = max(0, width - _width(columns))
    widths = {name: _least(name, cells) for name, cells in columns.items()}
    for name in (name for name in WRAPS if name in columns):
        more = min(spare, max(map(len, columns[name])) - widths[name])
        widths[name], spare = widths[name] + max(0, more), spare - max(0, more)
    return widths


def _width(columns: dict[str, list[str]]) -> int:
    """The letters that a table takes at the least."""
    return 1 + sum(AROUND + _least(name, cells) for name, cells in columns.items())


def _least(name: str, cells: list[str]) -> int:
    longest = max(map(len, cells))
    return max(len(name), min(longest, WRAPS.get(name, longest)))


def _thinned(radii: list[str], most: int) -> list[str]:
    """Radii that are too many: every second, third ... is kept."""
    step = -(-len(radii) // most) if radii else 1
    return [column for i, column in enumerate(radii) if i % step]


def _lines(*lines: list[str]) -> str | None:
    return "\n".join(", ".join(line) for line in lines if line) or None


def _shortened(names: list[str]) -> tuple[list[str], list[str]]:
    """Names that leave room for the numbers, and what the shortened ones stand for."""
    from sigmax.report.study import ENVELOPE, ORACLE

    titles = [title for title in (ORACLE, ENVELOPE) if any(name.startswith(title) for name in names)]
    for title in titles:
        names = [name.replace(title, title.partition(" (")[0]) for name in names]
    return names, titles


def _cell(column: str, value: object) -> str:
    if column == "alpha" or not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    if column == "draws":
        return f"{value:.0f}"
    if column in LOSSES:
        return share_up(value)
    return down(value, 3) if column == "ACR" else share_down(value)
