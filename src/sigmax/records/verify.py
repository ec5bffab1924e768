"""Does every record prove its radius? Recomputed from the counts alone: no model, no data, no GPU."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sigmax import radius
from sigmax.certify.checks import check_draws, is_number
from sigmax.certify.memorized_rule import Ball, MemorizedRule
from sigmax.certify.procedure import replay
from sigmax.certify.rebuild import rebuild, refuse_surplus
from sigmax.certify.sampling import remade, replayable
from sigmax.errors import RequestError
from sigmax.records.assembly import Assembly
from sigmax.records.certificate import Certificate, Outcome
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import numbered_lines, torn

IMPORTED = "imported"
TOLERANCE = 1e-10  # what two versions of scipy may differ by; far below any digit that is printed
PRINTED = 1.005  # a log's radii are rounded to nearest, to as little as three digits
ROUNDED = ("lower", "upper", "radius")  # what a special function computed; all else must agree exactly


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and the line of the file it stands in."""

    line: int
    message: str


@dataclass(frozen=True)
class Verdict:
    """What verification found: nothing wrong means every radius follows from its counts."""

    path: Path
    plan: Plan | None  # None where not even the plan could be read
    findings: tuple[Finding, ...]
    records: int
    finished: bool
    torn: bool  # whether the last line was cut short, and so not counted

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def planned(self) -> int:
        """How many inputs the plan names."""
        return len(self.plan.indices) if self.plan else 0

    @property
    def imported(self) -> bool:
        """Whether the run was another tool's log, which has no counts to prove anything with."""
        return self.plan is not None and self.plan.method == IMPORTED


def verify(path: str | Path) -> Verdict:
    """Check every line of a run file; goes on after a bad one so that all are named."""
    path = Path(path)
    run, findings, balls = Assembly(), list[Finding](), list[Ball]()
    for number, line in numbered_lines(path):
        try:
            record = run.take(line)
            if number == 1 and run.plan is not None:
                check_plan(run.plan)
            if record is not None and run.plan is not None:
                told = problems(run.plan, record, balls)
                findings += [Finding(number, f"input {record.index}: {p}") for p in told]
                if record.certificate.predicted is not None:
                    balls.append((record.certificate.predicted, record.certificate.radius))
        except RequestError as error:
            findings.append(Finding(number, str(error)))
            if run.plan is None:  # without a plan no other line means anything
                break
    if run.plan is None and not findings:
        raise RequestError(f"{path} holds no whole line; expected a run file written by `sigmax certify`")
    return Verdict(path, run.plan, tuple(findings), len(run.records), run.finished, torn(path))


def check_plan(plan: Plan) -> None:
    """Raise unless the plan could have been run."""
    if plan.method == IMPORTED:
        check_draws(plan.alpha, n=plan.n)
        _claimable(plan)
    else:
        rule = rebuild(plan.rule)
        refuse_surplus(plan.rule)
        rule.check_certify(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha, sampling=replayable(remade(plan.sampling)))


def problems(plan: Plan, record: Record, before: Sequence[Ball] = ()) -> list[str]:
    """What is wrong with one record, if anything; `before` are the answers of the records before it, in order."""
    try:
        return list(_claims(plan, record) if plan.method == IMPORTED else _proof(plan, record, before))
    except RequestError as error:
        return [str(error)]


def _claims(plan: Plan, record: Record) -> Iterator[str]:
    """An imported record proves nothing; it must at least be possible, and say what it is."""
    c = record.certificate
    if c.outcome not in (Outcome.CLAIMED, Outcome.ABSTAINED_ELSEWHERE, Outcome.IMPOSSIBLE):
        yield f"an imported log cannot be {_shown(c.outcome)}: it holds no counts"
    if (c.predicted is None or c.outcome is Outcome.ABSTAINED_ELSEWHERE) and (c.predicted, c.radius) != (None, 0):
        yield f"it abstains, but claims class {c.predicted} and radius {c.radius}"
    if c.radius < 0 or record.label < 0 or (c.predicted or 0) < 0:
        yield f"radius {c.radius}, label {record.label} and class {c.predicted} must not be negative"
    if c.alpha != plan.alpha:
        yield f"alpha is recorded as {c.alpha}, the plan says {plan.alpha}"
    sigma = c.stages[-1].sigma if c.stages else _claimable(plan)
    if c.outcome is Outcome.IMPOSSIBLE or c.radius > PRINTED * radius.largest(sigma, plan.n, plan.alpha):
        yield f"radius {c.radius} is impossible: more than the draws can show"


def _claimable(plan: Plan) -> float:
    sigma: Any = plan.rule.get("sigma")
    if not is_number(sigma) or sigma <= 0:
        raise RequestError(f"the plan of an imported log must name its sigma; got {sigma!r}")
    return float(sigma)


def _proof(plan: Plan, record: Record, before: Sequence[Ball]) -> Iterator[str]:
    rule = rebuild(plan.rule)
    if not 0 <= record.label < rule.classes:
        yield f"label {record.label} is not a class (0..{rule.classes - 1})"
    sampling = replayable(remade(plan.sampling))
    procedure = rule.certifying(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha, sampling=sampling)
    proved = replay(procedure, record.certificate.stages)
    if isinstance(rule, MemorizedRule):
        proved = rule.replayed(proved, record.certificate.stages, before)
    yield from disagreements(record.certificate, proved)


def disagreements(recorded: Certificate, proved: Certificate) -> Iterator[str]:
    """Where a recorded certificate says something else than its counts prove."""
    # By the least noise: beside a router's large one, a small expert's claim could grow a lot and look the same.
    scale = min((stage.sigma for stage in proved.stages if stage.sigma), default=0.0)
    for name in ("predicted", "radius", "outcome", "alpha"):
        yield from _differs(name, getattr(recorded, name), getattr(proved, name), scale)
    if recorded.predicted is None and recorded.radius != 0:
        yield f"it abstains, but with radius {recorded.radius}"
    if sum(Fraction(entry.alpha) for entry in recorded.ledger) > Fraction(proved.alpha):
        yield f"the ledger spends more than alpha={proved.alpha}"
    yield from _differs("the ledger", recorded.ledger, proved.ledger, scale)
    if len(recorded.stages) != len(proved.stages):
        yield f"{len(recorded.stages)} stages are recorded, {len(proved.stages)} are asked for"
    for old, new in zip(recorded.stages, proved.stages, strict=False):
        for name in ("name", "sigma", "counts", "n", "looks", "balls", "alpha", "lower", "upper", "radius"):
            yield from _differs(f"{old.name} {name}", getattr(old, name), getattr(new, name), new.sigma)


def _differs(name: str, recorded: object, proved: object, sigma: float) -> Iterator[str]:
    if recorded == proved and type(recorded) is type(proved):
        return
    if name.endswith(ROUNDED) and _close(recorded, proved, TOLERANCE * min(1.0, sigma)):
        return
    yield f"{name} is recorded as {_shown(recorded)}, the counts give {_shown(proved)}"


def _close(recorded: object, proved: object, tolerance: float) -> bool:
    if not (isinstance(recorded, float) and isinstance(proved, float)):
        return False
    return math.isclose(recorded, proved, rel_tol=TOLERANCE, abs_tol=tolerance)


def _shown(value: object) -> object:
    return value.name.lower() if isinstance(value, Outcome) else value
