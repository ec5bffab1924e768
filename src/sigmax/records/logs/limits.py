"""The largest radius each row of a log can have. A log without counts can be refuted, never proved."""

import math
from functools import cache

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.records.logs.table import LogRow, LogTable
from sigmax.records.rounding import Precision

SLACK = 1e-9  # relative: what another tool's statistics may differ by


class Limits:
    """What n samples at sigma can show, row by row, allowing for the rounding of what was printed.

    A cascade paid for more bounds than one and an adaptive tool took fewer samples than n, so their true limits lie
    lower: a radius refused here is impossible whatever they did.
    """

    def __init__(self, table: LogTable, sigmas: tuple[float, ...], *, n: int) -> None:
        self.sigmas = sigmas
        self.n = n
        self.radii = Precision.of(row.printed for row in table.rows)
        self._sigma_precision = Precision.of(row.sigma for row in table.rows if row.sigma)
        self.by_row = "sigma" in table.columns or (len(sigmas) > 1 and "stage" in table.columns)
        self._largest = cache(radius.largest)
        if len(sigmas) > 1 and not self.by_row:
            raise RequestError(f"{len(sigmas)} sigmas were given, but the log has no column sigma or stage; give one")
        for row in table.rows:
            self._check(row)

    def is_radius(self, row: LogRow) -> bool:
        """Whether the number printed can be a radius at all."""
        return math.isfinite(row.radius) and row.radius >= 0

    def sigma(self, row: LogRow) -> float:
        """The noise of this row: its own, that of its stage, or the log's."""
        if row.sigma is not None:
            return float(row.sigma)
        return self.sigmas[row.stage] if len(self.sigmas) > 1 and row.stage is not None else self.sigmas[0]

    def allow(self, row: LogRow, alpha: float) -> bool:
        """Whether some radius that rounds to the printed one can be shown with these samples at `alpha`."""
        if not self.is_radius(row):
            return False
        smallest_behind = row.radius - self.radii.slack(row.radius)
        return smallest_behind <= self.limit(row, alpha) * (1 + SLACK)

    def limit(self, row: LogRow, alpha: float) -> float:
        """The radius of this row had all its samples agreed."""
        n = self.n if row.samples is None else row.samples
        sigma = self.sigma(row)
        if row.sigma is not None:
            sigma += self._sigma_precision.slack(sigma)
        return float(self._largest(sigma, n, alpha)) if n > 0 else 0.0

    def _check(self, row: LogRow) -> None:
        if row.samples is not None and row.samples > self.n:
            raise RequestError(
                f"line {row.line} of the log says {row.samples} samples, more than n={self.n}; "
                "give the largest number of samples as n"
            )
        if len(self.sigmas) > 1 and row.stage is not None and row.stage >= len(self.sigmas):
            raise RequestError(
                f"line {row.line} of the log names stage {row.stage} (0 is the largest sigma), "
                f"but {len(self.sigmas)} sigmas were given; give all of them"
            )
