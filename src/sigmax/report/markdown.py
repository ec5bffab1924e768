"""Tables of a report as Markdown, with numbers that never claim too much."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sigmax.records.rounding import down, share_down, share_up
from sigmax.report.average import WARNING
from sigmax.report.comparison import EASIEST, MEAN_DRAWS

if TYPE_CHECKING:
    import pandas as pd

ACR_DECIMALS = 4
_MARKS = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)")  # within a word an underscore is itself
NOTHING = "-"  # where there is no number to give
LOSSES = (EASIEST, "abstained")  # the less, the better


def comparison(frame: "pd.DataFrame", *, strict: bool) -> str:
    """The comparison for reading, rounded so that no run looks better than it was."""
    return f"{table(*cells(frame))}\n{caption(frame, strict=strict)}\n"


def cells(frame: "pd.DataFrame") -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the rows as text: what an input took stands beside the most it may take."""
    names = [str(name) for name in frame.columns if name != MEAN_DRAWS]
    rows = [[shown(name, row[name]) for name in names] for row in frame.to_dict("records")]
    for row, mean in zip(rows, frame.get(MEAN_DRAWS, []), strict=False):
        if not math.isnan(mean):
            place = names.index("n")
            row[place] = f"at most {row[place]}, {mean:,.0f} draws an input on average"
    return names, rows


def caption(frame: "pd.DataFrame", *, strict: bool) -> str:
    """What the columns of the table mean."""
    radii = [name for name in frame.columns if str(name)[:1].isdigit()]
    asked = f" {NOTHING}: beyond the largest radius asked about." if frame[radii].isna().any(axis=None) else ""
    return (
        "Certified accuracy in % of inputs "
        f"(true class certified with radius {'>' if strict else '>='} the column's); "
        "ACR: average certified radius; ACR top 10%: the part of it, in %, that the easiest tenth of the inputs "
        "makes; abstained: in % of inputs. Rounded to the side that claims less: accuracies and ACR down, "
        f"the easiest tenth and abstentions up.{asked}\n\n{WARNING}."
    )


def shown(name: str, value: Any) -> str:
    """A cell of the comparison as text, by the name of its column."""
    if isinstance(value, float) and math.isnan(value):
        return NOTHING
    if name == "ACR":
        return down(value, ACR_DECIMALS)
    if name == "alpha":
        return f"{value:g}"
    if name in LOSSES:
        return share_up(value)
    return share_down(value) if isinstance(value, float) else str(value)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: text to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in names[1:])]
    escaped = [[as_text(cell) for cell in row] for row in (names, *rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (escaped[0], rule, *escaped[1:]))


def as_text(name: str) -> str:
    """A name that Markdown shows as it is: names come from files, and may look like a link or a tag."""
    return _MARKS.sub(r"\\\g<0>", name).replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")


def code(text: str) -> str:
    """Text as code, between more ticks than it holds itself."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{text}{ticks}" if len(ticks) == 1 else f"{ticks} {text} {ticks}"


def paragraphs(parts: Iterable[str]) -> str:
    """The parts of a page, a blank line between them."""
    return "\n\n".join(parts) + "\n"
