"""Does every record prove its radius? Recomputed from the counts alone: no model, no data, no GPU."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmax.certify.procedure import Rule, replay
from sigmax.certify.rules import rebuild
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Outcome
from sigmax.records.lines import Record, decode
from sigmax.records.plan import Plan
from sigmax.records.run import numbered_lines

TOLERANCE = 1e-9  # what two versions of scipy may differ by; far below any digit that is printed
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
    findings: tuple[Finding, ...]
    records: int
    planned: int
    finished: bool
    imported: bool

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def verify(path: str | Path) -> Verdict:
    """Check every line of a run file; goes on after a bad one so that all are named."""
    path = Path(path)
    checker = _Checker()
    for number, line in numbered_lines(path):
        checker.take(number, line)
    if checker.plan is None and not checker.findings:
        raise RequestError(f"{path} holds no whole line; expected a run file written by `sigmax certify`")
    plan = checker.plan
    return Verdict(
        path,
        tuple(checker.findings),
        records=len(checker.seen),
        planned=len(plan.indices) if plan else 0,
        finished=checker.finished,
        imported=plan is not None and plan.method == "imported",
    )


class _Checker:
    """Walks the lines once, remembering what later lines must agree with."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.rule: Rule | None = None
        self.findings: list[Finding] = []
        self.seen: set[int] = set()
        self.finished = False

    def take(self, number: int, line: bytes) -> None:
        try:
            data = decode(line)
            if number == 1:
                self._plan(data)
            elif self.finished:
                raise RequestError("the line stands after the end line")
            elif data.get("kind") == "end":
                self._end(data)
            elif self.plan is not None:
                self._record(number, Record.from_json(data))
        except RequestError as error:
            self.findings.append(Finding(number, str(error)))
        except (TypeError, KeyError, ValueError, AttributeError) as error:  # forged: whole, but of the wrong kind
            self.findings.append(Finding(number, f"the line holds a value of the wrong kind: {error!r}"))

    def _plan(self, data: dict[str, Any]) -> None:
        self.plan = Plan.from_json(data)
        if self.plan.method != "imported":
            self.rule = rebuild(self.plan.rule)
            self.rule.check_certify(n0=self.plan.n0 or 0, n=self.plan.n, alpha=self.plan.alpha)

    def _end(self, data: dict[str, Any]) -> None:
        self.finished = True
        planned = len(self.plan.indices) if self.plan else 0
        if not data.get("inputs") == len(self.seen) == planned:
            raise RequestError(
                f"the run claims to be complete with {data.get('inputs')} inputs; "
                f"the plan names {planned} and the file holds {len(self.seen)}"
            )

    def _record(self, number: int, record: Record) -> None:
        assert self.plan is not None
        if record.index not in self.plan.indices:
            raise RequestError(f"input {record.index} is not in the plan")
        if record.index in self.seen:
            raise RequestError(f"input {record.index} is recorded twice")
        self.seen.add(record.index)
        problems = self._claims(record) if self.rule is None else self._proof(self.rule, self.plan, record)
        self.findings += [Finding(number, f"input {record.index}: {problem}") for problem in problems]

    def _claims(self, record: Record) -> Iterator[str]:
        if record.certificate.outcome not in (Outcome.CLAIMED, Outcome.ABSTAINED_ELSEWHERE, Outcome.IMPOSSIBLE):
            yield f"an imported log cannot be {_shown(record.certificate.outcome)}: it holds no counts"
        if record.certificate.outcome is Outcome.IMPOSSIBLE:
            yield f"radius {record.certificate.radius} is impossible: more than the draws can show"

    def _proof(self, rule: Rule, plan: Plan, record: Record) -> Iterator[str]:
        if not 0 <= record.label < rule.classes:
            yield f"label {record.label} is not a class (0..{rule.classes - 1})"
        procedure = rule.certifying(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha)
        proved = replay(procedure, record.certificate.stages)
        yield from disagreements(record.certificate, proved)


def disagreements(recorded: Certificate, proved: Certificate) -> Iterator[str]:
    """Where a recorded certificate says something else than its counts prove."""
    for name in ("predicted", "radius", "outcome", "alpha"):
        yield from _differs(name, getattr(recorded, name), getattr(proved, name))
    if len(recorded.stages) != len(proved.stages):
        yield f"{len(recorded.stages)} stages are recorded, {len(proved.stages)} are asked for"
    for old, new in zip(recorded.stages, proved.stages, strict=False):
        for name in ("name", "sigma", "counts", "n", "alpha", "lower", "upper", "radius"):
            yield from _differs(f"{old.name} {name}", getattr(old, name), getattr(new, name))


def _differs(name: str, recorded: object, proved: object) -> Iterator[str]:
    if recorded == proved and type(recorded) is type(proved):
        return
    if name.endswith(ROUNDED) and _close(recorded, proved):
        return
    yield f"{name} is recorded as {_shown(recorded)}, the counts give {_shown(proved)}"


def _close(recorded: object, proved: object) -> bool:
    if not (isinstance(recorded, float) and isinstance(proved, float)):
        return False
    return math.isclose(recorded, proved, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _shown(value: object) -> object:
    return value.name.lower() if isinstance(value, Outcome) else value
