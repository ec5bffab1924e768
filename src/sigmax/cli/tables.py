"""Tables on the terminal. Radii and shares are rounded down, never up."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from sigmax.records.run import Run


def summary_table(runs: "Sequence[Run]") -> Table:
    """Certified accuracy at the usual radii, a row a run: the columns of `sigmax.report.compare`."""
    from sigmax import report

    frame = report.compare(runs)
    table = Table(title="certified accuracy (%) at l2 radius r")
    for column in frame.columns:
        table.add_column(
            str(column), justify="left" if frame[column].dtype == object else "right", no_wrap=True
        )
    for row in frame.itertuples(index=False):
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:g}" for cell in row))
    return table
