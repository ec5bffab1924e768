"""Tables on the terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sigmax.records.rounding import down, share_down

if TYPE_CHECKING:
    from sigmax.records.run import Run

MOST_RADII = 6  # columns of accuracies that 80 characters hold
SHARED = ("sigma", "n", "alpha", "inputs")  # said once, below the table, where all runs agree


def summary_table(runs: "Sequence[Run]") -> Table:
    """Certified accuracy at the usual radii, a row a run, as `sigmax.report.compare` gives it."""
    from sigmax import report

    frame = report.compare(runs).astype(object)
    frame = frame.drop(columns=_left_out(frame.columns))
    same = [name for name in SHARED if name in frame and frame[name].nunique() == 1]
    caption = ", ".join(f"{name} {frame[name].iloc[0]}" for name in same)
    table = Table(title="certified accuracy in % at l2 radius", caption=caption or None)
    for column in frame.columns.drop(same):
        table.add_column(str(column), justify="right", no_wrap=True)
    for _, row in frame.drop(columns=same).iterrows():
        table.add_row(*(Text(_cell(str(column), cell)) for column, cell in row.items()))
    return table


def _left_out(columns: "Iterable[str]") -> list[str]:
    """Radii that would not fit a terminal: every second, third ... is kept."""
    radii = [column for column in columns if column[:1].isdigit()]
    step = -(-len(radii) // MOST_RADII)
    return [column for i, column in enumerate(radii) if i % step]


def _cell(column: str, value: object) -> str:
    if column == "alpha" or not isinstance(value, float):
        return str(value)
    return down(value, 3) if column == "ACR" else share_down(value)
