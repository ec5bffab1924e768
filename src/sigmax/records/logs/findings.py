"""What reading a log brought to light, as facts and as sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

from sigmax.records.logs.fit import fitting_alpha
from sigmax.records.logs.limits import Limits
from sigmax.records.logs.table import LogRow, LogTable

SHOWN = 3  # rows quoted in a sentence
SigmaFrom = Literal["given", "path", "column"]


@dataclass(frozen=True)
class LogReport:
    """Facts about one imported log. `notes` puts those worth saying into words; a spotless log has none."""

    table: LogTable
    limits: Limits
    alpha: float
    planned: int  # inputs the run was meant to have
    sigma_from: SigmaFrom  # who said what sigma is

    @property
    def sigmas(self) -> tuple[float, ...]:
        """The noise that the log is held against."""
        return self.limits.sigmas

    @cached_property
    def impossible(self) -> tuple[LogRow, ...]:
        """Claims beyond the reach of n samples."""
        claims = (row for row in self.table.claims if self.limits.is_radius(row))
        return tuple(row for row in claims if not self.limits.allow(row, self.alpha))

    @cached_property
    def fits_alpha(self) -> float | None:
        """The smallest usual alpha at which all of these were possible."""
        return fitting_alpha(self.impossible, self.limits, self.alpha)

    @property
    def rows(self) -> int:
        """How many inputs the log holds."""
        return len(self.table.rows)

    @property
    def finished(self) -> bool:
        """Whether the log holds every input of its run."""
        return self.rows == self.planned

    @property
    def abstained(self) -> int:
        """How many inputs the tool abstained on."""
        return sum(row.predicted is None for row in self.table.rows)

    @property
    def wrong_correct(self) -> int:
        """How many rows say something else in `correct` than predict == label."""
        return sum(row.correct is not None and row.correct != row.right for row in self.table.rows)

    @property
    def running_total(self) -> bool:
        """Whether `correct` counts the right rows so far instead of judging each."""
        totals = accumulate(int(row.right) for row in self.table.rows)
        return self.wrong_correct > 0 and all(
            row.correct == total for row, total in zip(self.table.rows, totals, strict=True)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before relying on the log, one sentence a finding."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if not self.finished:
            yield f"{self.rows:,} of {self.planned:,} rows: the log is unfinished or lacks rows"
        if self.impossible:
            impossible = f"impossible at {self._stated()} ({self._explanation()})"
            yield f"{_rows(self.impossible)}: {impossible}; kept as printed"
        not_a_radius = [row for row in self.table.claims if not self.limits.is_radius(row)]
        if not_a_radius:
            yield f"{_rows(not_a_radius)}: not a radius; read as making no claim"
        on_abstention = [row for row in self.table.rows if row.predicted is None and row.radius != 0]
        if on_abstention:
            yield f"{_rows(on_abstention)}: printed on an abstention; read as 0"
        if self.running_total:
            yield "the column `correct` is a running total; recomputed as predict == label"
        elif self.wrong_correct:
            yield f"the column `correct` is wrong in {_count(self.wrong_correct)}; recomputed as predict == label"
        yield from self._surroundings()
        yield from self._cautions()

    def _surroundings(self) -> Iterator[str]:
        torn = self.table.torn
        if torn:
            yield f"the last row, line {torn.number}, is cut short and left out: {torn.text.strip()!r}"
        if self.table.trailer:
            yield f"text after the table was left out, from line {self.table.trailer[0].number} on"
        if self.table.headers > 1:
            yield f"the header stands {self.table.headers} times: the log was written by more than one job"

    def _cautions(self) -> Iterator[str]:
        if self._own_noise():
            yield (
                "sigma was chosen for each input: its radius is a certificate only if the tool remembered every "
                "ball it had certified, which a log does not show"
            )
        elif "stage" in self.table.columns and len(self.sigmas) == 1:
            yield f"the log is of a cascade, checked against the one sigma given, {self.sigmas[0]:g}"

    def _own_noise(self) -> bool:
        """Whether inputs have noise of their own: an export of sigmax names the sigma of every scheme."""
        columns = self.table.columns
        return self.table.sigma_varies and not ("limited_by" in columns and "stage" in columns)

    def _stated(self) -> str:
        sigma = ", ".join(f"{s:g}" for s in self.sigmas)
        return f"sigma={'per row' if self.table.sigma_varies else sigma}, n={self.limits.n}, alpha={self.alpha:g}"

    def _explanation(self) -> str:
        if self.fits_alpha is None:
            return "no usual alpha allows them all; check sigma and n"
        return f"they fit alpha={self.fits_alpha:g}"


def _rows(rows: Sequence[LogRow]) -> str:
    quoted = ", ".join(f"{row.printed} in line {row.line}" for row in rows[:SHOWN])
    more = ", ..." if len(rows) > SHOWN else ""
    return f"{_count(len(rows))} of radius {quoted}{more}"


def _count(rows: int) -> str:
    return f"{rows:,} row{'s' if rows != 1 else ''}"
