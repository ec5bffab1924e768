"""Tables on the terminal."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sigmax.records.rounding import down, share_down

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.records.run import Run

EASIEST, SHORT = "ACR top 10%", "top 10%"  # as `compare` calls it, and as a terminal has room for
MOST_RADII = 5  # columns of accuracies that 80 characters hold
SHARED = ("sigma", "n", "alpha", "inputs")  # said once, below the table, where all runs agree


def summary_table(runs: "Sequence[Run]") -> Table:
    """Certified accuracy at the usual radii, a row a run, as `sigmax.report.compare` gives it.

    A dual run among the runs of all its experts adds the rows of its oracle and envelope.
    """
    from sigmax import report

    return shown(report.compare(runs))


def shown(frame: "pd.DataFrame") -> Table:
    """What `sigmax.report.compare` gave, as wide as a terminal."""
    frame = frame.astype(object)
    frame = frame.drop(columns=_left_out(frame.columns))
    same = [name for name in SHARED if name in frame and frame[name].nunique() == 1]
    said = [f"{name} {frame[name].iloc[0]}" for name in same]
    caution = [f"of ACR, a poor metric, the easiest tenth of the inputs makes the % below {SHORT}"]
    frame["name"], titles = _shortened([str(name) for name in frame["name"]])
    table = Table(title="certified accuracy in % at l2 radius", caption=_lines(said, titles, caution))
    for column in frame.columns.drop(same).map(lambda name: SHORT if name == EASIEST else name):
        # Text may take several lines, numbers never.
        wraps = column in ("name", "sigma")
        table.add_column(str(column), justify="right", no_wrap=not wraps, overflow="fold")
    for _, row in frame.drop(columns=same).iterrows():
        table.add_row(*(Text(_cell(str(column), cell)) for column, cell in row.items()))
    return table


def _lines(*lines: list[str]) -> str | None:
    return "\n".join(", ".join(line) for line in lines if line) or None


def _shortened(names: list[str]) -> tuple[list[str], list[str]]:
    """Names that leave room for the numbers, and what the shortened ones stand for."""
    from sigmax.report.study import ENVELOPE, ORACLE

    titles = [title for title in (ORACLE, ENVELOPE) if any(name.startswith(title) for name in names)]
    for title in titles:
        names = [name.replace(title, title.partition(" (")[0]) for name in names]
    return names, titles


def _left_out(columns: "Iterable[str]") -> list[str]:
    """Radii that would not fit a terminal: every second, third ... is kept."""
    radii = [column for column in columns if column[:1].isdigit()]
    step = -(-len(radii) // MOST_RADII)
    return [column for i, column in enumerate(radii) if i % step]


def _cell(column: str, value: object) -> str:
    if column == "alpha" or not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    return down(value, 3) if column == "ACR" else share_down(value)
