"""Does every record prove its radius? Recomputed from the counts alone: no model, no data, no GPU."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from sigmax import radius
from sigmax.bounds import table
from sigmax.errors import RequestError
from sigmax.numbers import is_number
from sigmax.records.assembly import Assembly
from sigmax.records.lines import Record, decode, encode
from sigmax.records.plan import NORM_OF_LOGS, OtherFormatError, Plan
from sigmax.records.run import Run, numbered_lines, torn
from sigmax.rules.certificate import Certificate, Outcome, Stage
from sigmax.rules.checks import check_samples
from sigmax.rules.registry import UnknownSchemeError, entry, rebuild
from sigmax.rules.replay import replay
from sigmax.rules.sampling import remade

# What versions of scipy may differ by, to the side that claims less. A record that claims more than is claimed here, as
# another processor's last bits may have it, must not claim more than its counts prove (see `table.as_proved`).
TOLERANCE = 1e-10
PRINTED = 1.005  # a log's radii are rounded to nearest, to as little as three digits
_OF_A_STAGE = tuple(field.name for field in fields(Stage))
STARTS = b'{"kind":"'  # every line that sigmax writes
Check = Callable[[Record], list[str]]  # what is wrong with a record
LARGER_CLAIMS_MORE = {"lower": True, "upper": False, "radius": True}  # what a special function computed
MINUS_ZERO = re.compile(rb":-0\.0[,}]|[\[,]-0\.0[,\]]")


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
        return self.plan is not None and self.plan.imported

    def _repr_html_(self) -> str:
        from sigmax.records.notebook import verdict_html

        return verdict_html(self)


def verify(run: Run | str | Path) -> Verdict:
    """Check every line of a run file; goes on after a bad one so that all are named.

    Of a `Run` its file is checked, as it is now. What cannot be verified is refused: a file that is no run, one of
    another format, and a run of a scheme that is not installed.
    """
    if not isinstance(run, Run | str | Path):
        raise RequestError(
            f"expected a Run or the path of a run file; got {type(run).__name__}. Verify each run by itself"
        )
    return _verified(run.path if isinstance(run, Run) else Path(run))


def _verified(path: Path) -> Verdict:
    run, findings = Assembly(keep=False), list[Finding]()
    check: Check | None = None  # where the plan could not have been run, the finding at its line says all
    for number, line in numbered_lines(path):
        try:
            record = run.take(line)
            if number == 1 and run.plan is not None:
                check = checker(run.plan)
            if record is not None and check is not None:
                problems = _problems(check, record)
                findings += [Finding(number, f"input {record.index}: {problem}") for problem in problems]
            if not findings or findings[-1].line != number:
                _refuse_unusual(line, record)
        except (OtherFormatError, UnknownSchemeError) as error:  # nothing is known to be wrong with such a file
            raise RequestError(f"{path}: {error}") from error
        except RequestError as error:
            if number == 1 and not line.startswith(STARTS):
                raise RequestError(f"{path} is no run file as `sigmax certify` writes it: {error}") from error
            findings.append(Finding(number, str(error)))
            if run.plan is None:  # without a plan no other line means anything
                break
    if run.plan is None and not findings:
        raise RequestError(f"{path} holds no whole line; expected a run file written by `sigmax certify`")
    return Verdict(path, run.plan, tuple(findings), len(run.seen), run.finished, torn(path))


def _refuse_unusual(line: bytes, record: Record | None) -> None:
    """Raise unless the line is spelled as a run writes it: one content has one spelling, so nothing can hide in it."""
    plain = decode(line) if record is None else record.to_json()
    if encode(plain) != line + b"\n" or (b"-0.0" in line and MINUS_ZERO.search(line)):
        raise RequestError("the line is not spelled as sigmax writes it (order of keys, digits, signs or spaces)")


def checker(plan: Plan) -> Check:
    """What finds the problems of the run's records, in their order; raises unless the plan could have been run."""
    if not plan.imported:
        return _Proof(plan)
    check_samples(plan.alpha, n=plan.n)
    if plan.norm != NORM_OF_LOGS:
        raise RequestError(f"the plan names the norm {plan.norm!r}; radii of imported logs are in {NORM_OF_LOGS}")
    _claimable(plan)
    return lambda record: list(_claims(plan, record))


def _problems(check: Check, record: Record) -> list[str]:
    try:
        return check(record)
    except RequestError as error:
        return [str(error)]


def _claims(plan: Plan, record: Record) -> Iterator[str]:
    """An imported record proves nothing; it must at least be possible, and say what it is."""
    c = record.certificate
    if c.outcome not in (Outcome.CLAIMED, Outcome.ABSTAINED_ELSEWHERE, Outcome.IMPOSSIBLE):
        yield f"an imported log cannot be {_shown(c.outcome)}: it holds no counts"
    if (c.predicted is None or c.outcome is Outcome.ABSTAINED_ELSEWHERE) and (c.predicted, c.radius) != (None, 0):
        yield f"it abstains, but claims class {c.predicted} and radius {c.radius}"
    if c.radius < 0 or (record.label or 0) < 0 or (c.predicted or 0) < 0:
        yield f"radius {c.radius}, label {record.label} and class {c.predicted} must not be negative"
    if c.alpha != plan.alpha:
        yield f"alpha is recorded as {c.alpha}, the plan says {plan.alpha}"
    sigma = c.stages[-1].sigma if c.stages else _claimable(plan)
    if c.outcome is Outcome.IMPOSSIBLE or c.radius > PRINTED * radius.largest(sigma, plan.n, plan.alpha):
        yield f"radius {c.radius} is impossible: more than the samples can show; check sigma, n and alpha"


def _claimable(plan: Plan) -> float:
    sigma: Any = plan.rule.get("sigma")
    if not is_number(sigma) or sigma <= 0:
        raise RequestError(f"the plan of an imported log must name its sigma; got {sigma!r}")
    return float(sigma)


class _Proof:
    """The rule of a run, built once; each record must say what its own counts prove."""

    def __init__(self, plan: Plan) -> None:
        self.rule, sampling = rebuild(plan.rule), remade(plan.sampling)
        _refuse_other_kinds("rule", plan.rule, self.rule.describe())
        _refuse_other_kinds("sampling", plan.sampling, sampling.describe())
        if plan.norm != self.rule.norm:
            raise RequestError(f"the plan names the norm {plan.norm!r}; this scheme certifies in {self.rule.norm}")
        self.rule.check_certify(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha, sampling=sampling)
        self.question: dict[str, Any] = {"n0": plan.n0 or 0, "n": plan.n, "alpha": plan.alpha, "sampling": sampling}
        self.with_earlier = entry(plan.method).with_earlier
        self.earlier = list[tuple[int, float]]()  # class and radius of the records so far

    def __call__(self, record: Record) -> list[str]:
        """What is wrong with the next record."""
        try:
            return list(self._wrong(record))
        finally:
            c = record.certificate
            if c.predicted is not None:
                self.earlier.append((c.predicted, c.radius))

    def _wrong(self, record: Record) -> Iterator[str]:
        if record.label is not None and not 0 <= record.label < self.rule.classes:
            yield f"label {record.label} is not a class (0..{self.rule.classes - 1})"
        recorded = record.certificate
        claimed = self.replayed(recorded)
        if recorded != claimed:  # of a record that was read, equal values are of the same kind
            with table.as_proved():
                yield from disagreements(recorded, claimed, self.replayed(recorded))

    def replayed(self, recorded: Certificate) -> Certificate:
        """What the recorded counts make of the next record."""
        found = replay(self.rule.certifying(**self.question), recorded.stages)
        if self.with_earlier is None:
            return found
        return self.with_earlier(self.rule, found, recorded.stages, self.earlier)


def _refuse_other_kinds(name: str, recorded: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> None:
    """Raise where the plan says the same in numbers of another kind, such as 1 for 1.0, or in another order."""
    if json.dumps(recorded) != json.dumps(rebuilt):
        raise RequestError(f"the plan's {name} is not spelled as sigmax writes it; expected {dict(rebuilt)!r:.300}")


def disagreements(recorded: Certificate, claimed: Certificate, proved: Certificate | None = None) -> Iterator[str]:
    """Where a recorded certificate says something else than its counts.

    claimed: what is claimed of them here; proved: the most that any machine may claim, no more than that without it.
    """
    proved = claimed if proved is None else proved
    # By the least noise: beside a router's large one, a small expert's claim could grow a lot and look the same.
    scale = min((stage.sigma for stage in claimed.stages if stage.sigma), default=0.0)
    for name in ("predicted", "radius", "outcome", "alpha", "answered_by", "limited_by"):
        yield from _differs(name, getattr(recorded, name), getattr(claimed, name), getattr(proved, name), scale)
    if recorded.predicted is None and recorded.radius != 0:
        yield f"it abstains, but with radius {recorded.radius}"
    if sum(Fraction(entry.alpha) for entry in recorded.ledger) > Fraction(claimed.alpha):
        yield f"the ledger spends more than alpha={claimed.alpha}"
    yield from _differs("the ledger", recorded.ledger, claimed.ledger, proved.ledger, scale)
    if not len(recorded.stages) == len(claimed.stages) == len(proved.stages):
        yield f"{len(recorded.stages)} stages are recorded, {len(claimed.stages)} are asked for"
    for stages in zip(recorded.stages, claimed.stages, proved.stages, strict=False):
        for name in _OF_A_STAGE:
            old, new, most = (getattr(stage, name) for stage in stages)
            yield from _differs(f"{stages[0].name} {name}", old, new, most, stages[1].sigma)


def _differs(name: str, recorded: object, claimed: object, proved: object, sigma: float) -> Iterator[str]:
    if recorded == claimed and type(recorded) is type(claimed):
        return
    kind = name.rpartition(" ")[2]
    if kind in LARGER_CLAIMS_MORE and _may_be_claimed(kind, recorded, claimed, proved, TOLERANCE * min(1.0, sigma)):
        return
    yield f"{name} is recorded as {_shown(recorded)}, the counts give {_shown(claimed)}"


def _may_be_claimed(kind: str, recorded: object, claimed: object, proved: object, tolerance: float) -> bool:
    """Whether numbers differ by rounding alone, and the recorded one claims no more than is proved."""
    if not (isinstance(recorded, float) and isinstance(claimed, float) and isinstance(proved, float)):
        return False
    if (recorded > proved) if LARGER_CLAIMS_MORE[kind] else (recorded < proved):
        return False
    return math.isclose(recorded, claimed, rel_tol=TOLERANCE, abs_tol=tolerance)


def _shown(value: object) -> object:
    return value.name.lower() if isinstance(value, Outcome) else value
