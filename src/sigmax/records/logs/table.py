"""The table in a published log: tab separated, found by column names, rows as typed values.

Padded names, blank lines, a second header where a job was started again, a summary after the table and a last row cut
short are read; a row nobody can read is an error.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from sigmax.errors import RequestError

REQUIRED = ("idx", "label", "predict", "radius")
ABSTENTIONS = (-1, -2)  # -2: a cascade that could decide neither to answer nor to go on
_DURATION = re.compile(r"(?:(-?\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class LogRow:
    """One input of a log. `radius` is what stands there, be it negative or not a number; None: not in this log."""

    line: int
    index: int
    label: int
    predicted: int | None
    radius: float
    printed: str  # the radius as text, whose digits tell how it was rounded
    correct: int | None
    seconds: float
    sigma: str | None  # data-dependent noise, as text for the same reason
    stage: int | None  # of a cascade; 0 is its largest sigma
    samples: int | None  # samples spent on this input

    @property
    def right(self) -> bool:
        """Whether the predicted class is the true one, whatever the log's own `correct` says."""
        return self.predicted == self.label


class LogLine(NamedTuple):
    """A line of a file and its number, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class LogTable:
    """What a log holds: its rows in file order, and what stood around them."""

    columns: frozenset[str]
    rows: tuple[LogRow, ...]
    torn: LogLine | None  # a last row cut short
    trailer: tuple[LogLine, ...]  # text after the table
    headers: int  # more than one: the log was appended to

    @property
    def claims(self) -> list[LogRow]:
        """The rows that predict a class."""
        return [row for row in self.rows if row.predicted is not None]

    @property
    def own_sigmas(self) -> frozenset[float]:
        """The noise levels that rows state; none without the column."""
        return frozenset(float(row.sigma) for row in self.rows if row.sigma is not None)

    @property
    def sigma_varies(self) -> bool:
        """Whether rows differ in the noise they state."""
        return len(self.own_sigmas) > 1


def read_table(path: Path) -> LogTable:
    """Every row of a log. Text may follow the table; anything unreadable inside it is an error naming the line."""
    content = _content(path)
    lines = [LogLine(number, text) for number, text in enumerate(content.split("\n"), start=1) if text.strip()]
    header = _Header(path, lines[0] if lines else LogLine(1, ""))
    body = [line for line in lines[1:] if not header.repeats(line)]
    rows, rest = _rows(path, header, body)
    torn = _torn(path, rest, width=len(header.names), unended=not content.endswith("\n"))
    if not rows:
        raise RequestError(f"{path} holds a header and no rows; there is nothing to import")
    return LogTable(
        columns=frozenset(header.names),
        rows=tuple(rows),
        torn=torn,
        trailer=() if torn else tuple(line for line, _ in rest),
        headers=len(lines) - len(body),
    )


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RequestError(f"cannot read the log {path} ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not text ({error.reason}); expected a tab-separated log") from error


def _rows(path: Path, header: "_Header", body: Sequence[LogLine]) -> tuple[list[LogRow], list[tuple[LogLine, str]]]:
    """The rows, and after the last of them the lines that are none with what is wrong with each."""
    rows: list[LogRow] = []
    rest: list[tuple[LogLine, str]] = []
    for line in body:
        try:
            row = header.row(line)
        except ValueError as error:
            rest.append((line, str(error)))
            continue
        if rest:
            raise _unreadable(path, *rest[0])
        rows.append(row)
    return rows, rest


def _torn(path: Path, rest: Sequence[tuple[LogLine, str]], *, width: int, unended: bool) -> LogLine | None:
    """The last row if it was cut short. Lines after the table that look like rows but are not torn are errors."""
    for line, problem in rest:
        cells = _cells(line.text.rstrip())
        if not _is_whole(cells[0]):
            continue  # text of a summary; a row starts with its index
        if len(rest) > 1 or not (unended or len(cells) < width):
            raise _unreadable(path, line, problem)
        return line
    return None


def _unreadable(path: Path, line: LogLine, problem: str) -> RequestError:
    return RequestError(
        f"{path}, line {line.number} cannot be read: {problem}. It says {line.text.strip()!r}; "
        "correct the line or remove it"
    )


class _Header:
    """The column names of a log and how a line becomes a row under them."""

    def __init__(self, path: Path, line: LogLine) -> None:
        self.names = [name.lower() for name in _cells(line.text)]
        missing = [name for name in REQUIRED if name not in self.names]
        if missing:
            raise RequestError(
                f"{path} has no column {', '.join(missing)}: expected tab-separated columns named "
                f"{' '.join(REQUIRED)} and any others; got {line.text.strip()[:200]!r} in line {line.number}"
            )
        repeated = sorted({name for name in self.names if name and self.names.count(name) > 1})
        if repeated:
            raise RequestError(f"{path} has more than one column {', '.join(repeated)}; keep the one that is meant")
        self._time = next((name for name in self.names if name.startswith("time")), None)

    def repeats(self, line: LogLine) -> bool:
        return [name.lower() for name in _cells(line.text)] == self.names

    def row(self, line: LogLine) -> LogRow:
        """The row in a line; ValueError says what is wrong with it."""
        cells = self._named(_cells(line.text))
        return LogRow(
            line=line.number,
            index=_natural(cells, "idx"),
            label=_natural(cells, "label"),
            predicted=_predicted(cells),
            radius=_number(cells["radius"], "radius"),
            printed=cells["radius"],
            correct=_flag(cells["correct"]) if "correct" in cells else None,
            seconds=_seconds(cells[self._time]) if self._time else 0.0,
            sigma=_sigma(cells),
            stage=_natural(cells, "stage") if "stage" in cells else None,
            samples=_natural(cells, "samplesize") if "samplesize" in cells else None,
        )

    def _named(self, cells: list[str]) -> Mapping[str, str]:
        width = len(self.names)
        if len(cells) < width or any(cells[width:]):
            raise ValueError(f"expected {width} cells, got {len(cells)}")
        return dict(zip(self.names, cells, strict=False))


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("\t")]


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None


def _whole(text: str, name: str) -> int:
    if not _is_whole(text):
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return int(text)


def _natural(cells: Mapping[str, str], name: str) -> int:
    value = _whole(cells[name], name)
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return value


def _predicted(cells: Mapping[str, str]) -> int | None:
    value = _whole(cells["predict"], "predict")
    if value in ABSTENTIONS:
        return None
    if value < 0:
        raise ValueError(f"predict must be a class, or -1 or -2 for an abstention, got {value}")
    return value


def _number(text: str, name: str) -> float:
    try:
        Decimal(text)  # its digits are counted later, and it takes no exponent of 20 digits
        return float(text)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _flag(text: str) -> int:
    words = {"true": 1, "false": 0}
    return words[text.lower()] if text.lower() in words else _whole(text, "correct")


def _sigma(cells: Mapping[str, str]) -> str | None:
    text = cells.get("sigma")
    if text == "":  # nobody answered, so nobody's noise is meant
        return None
    if text is not None and not 0 < _number(text, "sigma") < math.inf:
        raise ValueError(f"sigma must be a positive number, got {text!r}")
    return text


def _seconds(text: str) -> float:
    """Seconds from '15.4' or from a timedelta's text: '0:00:08.52', '1 day, 0:00:01'."""
    match = _DURATION.fullmatch(text)
    if match:
        days, hours, minutes, rest = match.groups(default="0")
        return 86400.0 * int(days) + 3600 * int(hours) + 60 * int(minutes) + float(rest)
    seconds = _number(text, "time")
    if not math.isfinite(seconds):
        raise ValueError(f"time must be finite, got {text!r}")
    return seconds
