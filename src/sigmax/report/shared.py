"""Runs made comparable input by input: the same data, and only the inputs all of them hold."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sigmax.certify.dual_parts import ROUTER
from sigmax.certify.procedure import Answer, Ask, Local, Look, Procedure, Question, Seen, Together, recorded_answer
from sigmax.certify.rebuild import rebuild
from sigmax.certify.sampling import remade
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Stage
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats


def on_shared_inputs(runs: Sequence[Run]) -> list[Run]:
    """The runs cut to the inputs that all of them hold, by rising index; refused where `why_not` has a reason."""
    reason = why_not(runs)
    if reason is not None:
        raise RequestError(reason)
    by_index = [{record.index: record for record in run.records} for run in runs]
    shared = sorted(set.intersection(*map(set, by_index)))
    return [replace(run, records=tuple(of[i] for i in shared)) for run, of in zip(runs, by_index, strict=True)]


def why_not(runs: Sequence[Run]) -> str | None:
    """Why the runs cannot be compared input by input, and what to do; None where they can."""
    first, *others = runs
    for run in others:
        if not _same_fingerprint(first, run):
            return f"the runs are of different data: {_data(first)}, {_data(run)}; certify the same data with both"
    if not set.intersection(*({record.index for record in run.records} for run in runs)):
        return (
            f"no input is held by all of {', '.join(run.path.name for run in runs)}; "
            "certify the same inputs (--start, --skip, --max) with each"
        )
    labels = {record.index: record.label for record in first.records}
    for run in others:  # a log that states no data can still be told apart by its labels
        for record in run.records:
            if labels.get(record.index, record.label) != record.label:
                return (
                    f"the runs are of different data: input {record.index} has the label {labels[record.index]} in "
                    f"{first.path.name} and {record.label} in {run.path.name}; certify the same data with both"
                )
    return None


def _same_fingerprint(one: Run, other: Run) -> bool:
    """Whether nothing speaks against it: an imported log has no fingerprint."""
    return len({run.plan.data.get("fingerprint") for run in (one, other)} - {None}) < 2


def _data(run: Run) -> str:
    data = run.plan.data
    known = f" (fingerprint {data['fingerprint']})" if data.get("fingerprint") else ""
    return f"{run.path.name} of {data['name']} {data['split']}{known}"


def true_radii(run: Run, *, alpha: float | None = None) -> Floats:
    """The radius certified for each input's true class, 0 without one, in the order of the records.

    With `alpha` they are what the same counts prove at that chance of error instead of the run's own. A router may
    then reach experts that the run had no need to ask: they count as undecided, so the radius is never too large.
    A run with adaptive sampling stopped where its own alpha told it to, and a memory holds what was settled at its
    own, so their radii stay as they are.
    """
    certificates = [record.certificate for record in run.records]
    if alpha is not None and remade(run.plan.sampling).kind == "fixed" and run.plan.method != "memorized":
        rule, n0, n = rebuild(run.plan.rule), run.plan.n0 or 0, run.plan.n
        certificates = [_replayed(rule.certifying(n0=n0, n=n, alpha=alpha), c.stages) for c in certificates]
    right = [c.predicted == record.label for c, record in zip(certificates, run.records, strict=True)]
    return np.where(right, [c.radius for c in certificates], 0.0)


def _replayed(procedure: Procedure[Certificate], stages: Sequence[Stage]) -> Certificate:
    """The procedure run on recorded counts; for an expert that was not asked on a tie, which proves nothing."""
    recorded = {stage.name: stage for stage in stages}
    always_asked = "", ROUTER  # a part that is missing here is damage, and refused
    parts = {*always_asked, *map(_part, recorded)}
    try:
        question = next(procedure)
        while True:
            assert not isinstance(question, Together)  # a rule made from a file shares no networks
            asked = _part(question.stage) in parts
            question = procedure.send(recorded_answer(question, recorded) if asked else _tie(question))
    except StopIteration as end:
        result: Certificate = end.value
        return result


def _part(stage: str) -> str:
    """Whose stage it is: 'expert-1' of 'expert-1/selection', nothing of 'selection'."""
    return stage.rpartition("/")[0]


def _tie(question: Question) -> Answer:
    if isinstance(question, Look):
        return Seen(0, 0.0, 0.0)
    if isinstance(question, Local):
        return 1.0
    assert isinstance(question, Ask)
    fewest, more = divmod(question.n, question.classes)
    return tuple(fewest + (c < more) for c in range(question.classes))
