"""Import of published logs: tables of radii without counts, checked against what their samples could show.

A log says neither sigma nor n nor alpha, so these are asked for. What it claims is kept as printed and marked as a
claim; a radius beyond the reach of n samples is marked impossible.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.records.lines import Record
from sigmax.records.logs.findings import LogReport, SigmaFrom
from sigmax.records.logs.fit import refuse_wrong_sigma, suggestion
from sigmax.records.logs.limits import Limits
from sigmax.records.logs.path import sigma_in
from sigmax.records.logs.table import LogRow, LogTable, read_table
from sigmax.records.plan import IMPORTED, NORM_OF_LOGS, Plan
from sigmax.records.rounding import Precision
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage
from sigmax.rules.checks import check_samples

NOT_STATED = "not stated"


class ImportedLog(NamedTuple):
    """A log as a run: `journal.write_all(path, plan, records)` makes it a file; the report is for the reader."""

    plan: Plan
    records: list[Record]
    report: LogReport


def read_log(
    path: str | Path,
    *,
    sigma: float | Sequence[float] | None = None,
    n: int,
    alpha: float,
    n0: int | None = None,
    inputs: int | None = None,
    data: str = NOT_STATED,
    split: str = NOT_STATED,
) -> ImportedLog:
    """A log of another tool, with every claim checked against (sigma, n, alpha) and nothing proved.

    sigma   the noise; for a cascade all its sigmas, in any order (one alone is taken for the largest).
            A `sigma` column in the log, where the noise depends on the input, goes before it; one with a single
            value must agree with it. Without either it is read from the path. One that cannot be right is refused
            with what fits the radii.
    inputs  how many inputs the run was meant to have: a shorter log is then kept as an unfinished run.
    Records come in the order of their indices. Radii stay as printed, though rounding to nearest may have raised
    them above what was proved; a radius impossible even so has `Outcome.IMPOSSIBLE`.
    """
    path = Path(path)
    check_samples(alpha, n=n, **({} if n0 is None else {"n0": n0}))
    given = None if sigma is None else _checked_sigmas(sigma)
    table = read_table(path)
    source: SigmaFrom = "given"
    sigmas, source = (given, source) if given else _found_sigma(path, table, n=n, alpha=alpha)
    limits = Limits(table, sigmas, n=n)
    if given:
        _refuse_other_sigma(path, table, given)
    planned = _planned_inputs(table, inputs)
    refuse_wrong_sigma(path, table.claims, limits, alpha, staged="stage" in table.columns)
    report = LogReport(table, limits, alpha, planned["count"], source)
    plan = Plan(
        rule=_rule(path, limits),
        n0=n0,
        n=n,
        alpha=alpha,
        seed=None,
        norm=NORM_OF_LOGS,
        generator=None,
        arithmetic=None,
        data={"name": data, "split": split, "fingerprint": None},
        inputs=planned,
        system=None,
        made_with={"notes": list(report.notes)},
    )
    rows = sorted(table.rows, key=lambda row: row.index)
    return ImportedLog(plan, [_record(row, limits, alpha) for row in rows], report)


def _refuse_other_sigma(path: Path, table: LogTable, given: tuple[float, ...]) -> None:
    """Raise where every row states one sigma and another was given; of a cascade's, one level may have answered all."""
    if len(table.own_sigmas) != 1 or "stage" in table.columns:
        return
    (stated,) = table.own_sigmas
    rounding = Precision.of(row.sigma for row in table.rows if row.sigma is not None).slack(stated)
    if abs(given[0] - stated) > rounding:
        raise RequestError(
            f"{path}: the column sigma says {stated:g}, --sigma says {given[0]:g}; leave --sigma out, or correct the "
            "log"
        )


def _found_sigma(path: Path, table: LogTable, *, n: int, alpha: float) -> tuple[tuple[float, ...], SigmaFrom]:
    """Sigma of a log for which none was given: the largest of its column, or that of its path."""
    column = [float(row.sigma) for row in table.rows if row.sigma is not None]
    if column:
        return (max(column),), "column"
    if "stage" in table.columns:
        raise RequestError(f"{path} is the log of a cascade; give all its sigmas (--sigma 0.25 --sigma 0.5 ...)")
    found = sigma_in(path)
    if found is None:
        fits = suggestion(table.claims, Limits(table, (1.0,), n=n), alpha)
        raise RequestError(f"{path} does not name its sigma, as sigma_0.25 or noise_0.5 would; give --sigma. {fits}")
    return (found,), "path"


def _checked_sigmas(sigma: float | Sequence[float]) -> tuple[float, ...]:
    """The sigmas, largest first, as the stages of a cascade are counted."""
    sigmas = list(sigma) if isinstance(sigma, Sequence) else [sigma]
    if not sigmas or not all(is_number(s) and s > 0 for s in sigmas) or len(set(sigmas)) < len(sigmas):
        raise RequestError(
            f"sigma must be a positive number (noise in pixel units, [0, 1]), or several different ones; got {sigma!r}"
        )
    return tuple(sorted(map(float, sigmas), reverse=True))


def _planned_inputs(table: LogTable, inputs: int | None) -> dict[str, int]:
    """Start, skip and count of the log's run; rows may be missing, but not most of them."""
    if inputs is not None and (not is_whole(inputs) or inputs < 1):
        raise RequestError(f"inputs must be a whole number of at least 1, or left out; got {inputs!r}")
    rows = sorted(table.rows, key=lambda row: row.index)
    for earlier, later in pairwise(rows):
        if earlier.index == later.index:
            raise RequestError(
                f"input {later.index} stands twice in the log, in lines {earlier.line} and {later.line}; "
                "remove the row that does not count"
            )
    start = rows[0].index
    steps = [later.index - earlier.index for earlier, later in pairwise(rows)]
    skip = min(steps, default=1)
    count = (rows[-1].index - start) // skip + 1
    if any(step % skip for step in steps) or count > 2 * len(rows):
        raise RequestError(
            f"the indices of the log are irregular (from {start} to {rows[-1].index}, {len(rows)} rows); "
            "expected every k-th input of a data set, as `--skip k` certifies them"
        )
    if inputs is not None and inputs < count:
        raise RequestError(f"inputs={inputs} is fewer than the log covers ({count}); leave it out or correct it")
    return {"start": start, "skip": skip, "count": inputs or count}


def _rule(path: Path, limits: Limits) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "scheme": IMPORTED,
        "sigma": limits.sigmas[0],
        "radii": f"as printed: {limits.radii}, rounded to nearest",
        "file": path.name,
    }
    return rule if len(limits.sigmas) == 1 else {**rule, "sigmas": list(limits.sigmas)}


def _record(row: LogRow, limits: Limits, alpha: float) -> Record:
    outcome = _outcome(row, limits, alpha)
    claims = row.predicted is not None and limits.is_radius(row)
    certificate = Certificate(
        predicted=row.predicted if claims else None,
        radius=row.radius if claims else 0.0,
        outcome=outcome,
        alpha=alpha,
        # A stage without votes: it proves nothing, and keeps the sigma that only this row has.
        stages=(Stage("", Role.CLAIM, limits.sigma(row), (), 0),) if limits.by_row else (),
        answered_by="" if limits.by_row else None,
    )
    return Record(row.index, row.label, certificate, row.seconds)


def _outcome(row: LogRow, limits: Limits, alpha: float) -> Outcome:
    if row.predicted is None:
        return Outcome.ABSTAINED_ELSEWHERE
    return Outcome.CLAIMED if limits.allow(row, alpha) else Outcome.IMPOSSIBLE
