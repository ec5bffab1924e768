"""Tables of a report as Markdown, with numbers that never claim too much."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sigmax.records.rounding import down, share_down
from sigmax.report.average import WARNING

if TYPE_CHECKING:
    import pandas as pd

ACR_DECIMALS = 4
NOTHING = "-"  # where there is no number to give


def comparison(frame: "pd.DataFrame", *, strict: bool) -> str:
    """The comparison for reading. Shares and average radii are rounded down: no run looks better than it was."""
    names = [str(name) for name in frame.columns]
    rows = [
        [shown(name, cell) for name, cell in zip(names, row, strict=True)] for row in frame.itertuples(index=False)
    ]
    return f"{table(names, rows)}\n{caption(strict=strict)}\n"


def caption(*, strict: bool) -> str:
    """What the columns of the table mean."""
    return (
        "Certified accuracy in % of inputs "
        f"(true class certified with radius {'>' if strict else '>='} the column's); "
        "ACR: average certified radius; ACR top 10%: the part of it, in %, that the easiest tenth of the inputs "
        f"makes; abstained: in % of inputs. All rounded down.\n\n{WARNING}."
    )


def shown(name: str, value: Any) -> str:
    """A cell of the comparison as text, by the name of its column."""
    if isinstance(value, float) and math.isnan(value):
        return NOTHING
    if name == "ACR":
        return down(value, ACR_DECIMALS)
    if name == "alpha":
        return f"{value:g}"
    return share_down(value) if isinstance(value, float) else str(value)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: text to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in names[1:])]
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in (names, rule, *rows))
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)


def paragraphs(parts: Iterable[str]) -> str:
    """The parts of a page, a blank line between them."""
    return "\n\n".join(parts) + "\n"
