"""What a report knows of its dual runs: their routing, and more where the runs of all their experts are there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sigmax.records.run import Run
from sigmax.report.diagnosis import Diagnosis, diagnose, find_experts
from sigmax.report.references import Reference
from sigmax.report.routes import is_dual, routing
from sigmax.report.shared import why_not

if TYPE_CHECKING:
    import pandas as pd

ORACLE = "oracle (best expert each input)"
ENVELOPE = "envelope (best expert each radius)"


@dataclass(frozen=True, eq=False)
class Line:
    """A reference as a report shows it: a row of the table and a dashed line of the plot."""

    name: str
    curve: Reference
    experts: tuple[Run, ...]  # the runs it was made of
    alpha: float  # the chance of error of the whole that its radii are part of


@dataclass(frozen=True, eq=False)
class Study:
    """The dual runs of a report by name; empty where there is none."""

    routings: Mapping[str, "pd.DataFrame"]
    diagnoses: Mapping[str, Diagnosis]  # of those whose experts are there
    notes: Mapping[str, str] = field(default_factory=dict)  # why one that stands beside other runs has no diagnosis

    @property
    def lines(self) -> list[Line]:
        """The oracle and the envelope of every dual run; those that several share stand once, and are named so."""
        known = self.diagnoses.items()
        oracles = [Line(name, d.oracle, d.experts, d.run.plan.alpha) for name, d in known]
        envelopes = [
            Line(name, d.envelope, d.experts, max(run.plan.alpha for run in d.experts)) for name, d in known
        ]
        return [*_titled(ORACLE, oracles), *_titled(ENVELOPE, envelopes)]


def study(runs: Mapping[str, Run]) -> Study:
    """Everything the runs tell about routing."""
    duals = {name: run for name, run in runs.items() if is_dual(run)}
    diagnoses, notes = dict[str, Diagnosis](), dict[str, str]()
    for name, run in duals.items():
        experts = [expert for expert in find_experts(run, runs.values()) if expert is not None]
        needed = len(run.plan.rule["experts"])
        if len(experts) < needed:
            if not all(is_dual(other) for other in runs.values()):
                notes[name] = _without_experts(len(experts), needed)
            continue
        reason = why_not([run, *experts])
        if reason is None:
            diagnoses[name] = diagnose(run, experts)
        else:
            notes[name] = f"not held against its experts: {reason}"
    frames = {name: diagnoses[name].frame if name in diagnoses else routing(run) for name, run in duals.items()}
    return Study(frames, diagnoses, notes)


def _without_experts(found: int, needed: int) -> str:
    return (
        f"no oracle and envelope: there are runs of {found or 'none'} of its {needed} experts. Other runs are not "
        "of them, as the systems' fingerprints tell; certify the very experts it was built of, on the same inputs"
    )


def _titled(title: str, lines: list[Line]) -> Iterator[Line]:
    """The lines that differ, named by the title alone if there is one of them."""
    different: list[Line] = []
    for line in lines:
        if not any(line.curve.same_as(known.curve) for known in different):
            different.append(line)
    for line in different:
        yield replace(line, name=title if len(different) == 1 else f"{title}, {line.name}")
