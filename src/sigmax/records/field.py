"""Import of the field's logs: tables of radii without counts, checked against what their draws could show.

A log says neither sigma nor n nor alpha, so these are asked for. What it claims is kept as printed and marked as a
claim; a radius beyond the reach of n draws is marked impossible.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from sigmax.certify.checks import check_draws, is_number, is_whole
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Outcome, Stage
from sigmax.records.field_limits import Limits
from sigmax.records.field_report import LogReport
from sigmax.records.field_table import Row, Table, read_table
from sigmax.records.lines import Record
from sigmax.records.plan import Plan

NOT_STATED = "not stated"
USUAL_ALPHAS = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


class ImportedLog(NamedTuple):
    """A log as a run: `journal.write_all(path, plan, records)` makes it a file; the report is for the reader."""

    plan: Plan
    records: list[Record]
    report: LogReport


def read_log(
    path: str | Path,
    *,
    sigma: float | Sequence[float],
    n: int,
    alpha: float,
    n0: int | None = None,
    inputs: int | None = None,
    data: str = NOT_STATED,
    split: str = NOT_STATED,
) -> ImportedLog:
    """A log of another tool, with every claim checked against (sigma, n, alpha) and nothing proved.

    sigma   the noise; for a cascade all its sigmas, in any order (one alone is taken for the largest).
            A `sigma` column in the log, where the noise depends on the input, goes before it.
    inputs  how many inputs the run was meant to have: a shorter log is then kept as an unfinished run.
    Records come in the order of their indices. Radii stay as printed, though rounding to nearest may have raised
    them above what was proved; a radius impossible even so has `Outcome.IMPOSSIBLE`.
    """
    path = Path(path)
    sigmas = _checked_sigmas(sigma)
    check_draws(alpha, n=n, **({} if n0 is None else {"n0": n0}))
    table = read_table(path)
    limits = Limits(table, sigmas, n=n)
    planned = _planned_inputs(table, inputs)
    report = _report(path, table, limits, alpha=alpha, planned=planned["count"])
    plan = Plan(
        rule=_rule(path, limits),
        n0=n0,
        n=n,
        alpha=alpha,
        seed=None,
        noise=None,
        arithmetic=None,
        data={"name": data, "split": split, "fingerprint": None},
        inputs=planned,
        system=None,
        made_with={"notes": list(report.notes)},
    )
    rows = sorted(table.rows, key=lambda row: row.index)
    return ImportedLog(plan, [_record(row, limits, alpha) for row in rows], report)


def _checked_sigmas(sigma: float | Sequence[float]) -> tuple[float, ...]:
    """The sigmas, largest first, as the stages of a cascade are counted."""
    sigmas = list(sigma) if isinstance(sigma, Sequence) else [sigma]
    if not sigmas or not all(is_number(s) and s > 0 for s in sigmas) or len(set(sigmas)) < len(sigmas):
        raise RequestError(
            "sigma must be a positive number (noise in pixel units, [0, 1]), or several different ones; "
            f"got {sigma!r}"
        )
    return tuple(sorted(map(float, sigmas), reverse=True))


def _planned_inputs(table: Table, inputs: int | None) -> dict[str, int]:
    """Start, skip and count of the run behind the log; rows may be missing, but not most of them."""
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
        "scheme": "imported",
        "sigma": limits.sigmas[0],
        "radii": f"as printed: {limits.radii}, rounded to nearest",
        "file": path.name,
    }
    return rule if len(limits.sigmas) == 1 else {**rule, "sigmas": list(limits.sigmas)}


def _record(row: Row, limits: Limits, alpha: float) -> Record:
    outcome = _outcome(row, limits, alpha)
    claims = row.predicted is not None and limits.is_radius(row)
    certificate = Certificate(
        predicted=row.predicted if claims else None,
        radius=row.radius if claims else 0.0,
        outcome=outcome,
        alpha=alpha,
        # A stage without votes: it proves nothing, and keeps the sigma that only this row knows.
        stages=(Stage("claimed", limits.sigma(row), (), 0),) if limits.by_row else (),
    )
    return Record(row.index, row.label, certificate, row.seconds)


def _outcome(row: Row, limits: Limits, alpha: float) -> Outcome:
    if row.predicted is None:
        return Outcome.ABSTAINED_ELSEWHERE
    return Outcome.CLAIMED if limits.allow(row, alpha) else Outcome.IMPOSSIBLE


def _report(path: Path, table: Table, limits: Limits, *, alpha: float, planned: int) -> LogReport:
    claims = [row for row in table.rows if row.predicted is not None]
    impossible = tuple(row for row in claims if limits.is_radius(row) and not limits.allow(row, alpha))
    return LogReport(
        file=path.name,
        table=table,
        planned=planned,
        alpha=alpha,
        sigmas=limits.sigmas,
        n=limits.n,
        impossible=impossible,
        fits_alpha=_fitting_alpha(impossible, limits, alpha),
        not_a_radius=tuple(row for row in claims if not limits.is_radius(row)),
    )


def _fitting_alpha(rows: Iterable[Row], limits: Limits, alpha: float) -> float | None:
    """The smallest usual alpha at which every one of `rows` is possible; None where there is none, or no need."""
    rows = list(rows)
    larger = (usual for usual in USUAL_ALPHAS if usual > alpha)
    return next((a for a in larger if rows and all(map(partial(limits.allow, alpha=a), rows))), None)
