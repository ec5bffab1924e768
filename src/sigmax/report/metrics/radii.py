"""The radius of every input for its true class, as recorded or as the same counts prove at another alpha."""

from collections.abc import Sequence

import numpy as np

from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats
from sigmax.report.runs import labelled
from sigmax.rules.certificate import Certificate, Stage
from sigmax.rules.procedure import (
    Answer,
    JointRequest,
    Procedure,
    Question,
    ScoreRequest,
    Scores,
    SigmaRequest,
    VoteRequest,
)
from sigmax.rules.registry import entry, rebuild
from sigmax.rules.replay import Recording
from sigmax.rules.sampling import remade


def true_radii(run: Run, *, alpha: float | None = None) -> Floats:
    """The radius certified for each input's true class, 0 without one, in the order of the records. Needs labels.

    With `alpha` they are what the same counts prove at that chance of error instead of the run's own. A scheme may
    then ask parts that the run did not ask: they count as undecided, so the radius is never too large.
    Adaptive sampling stopped where the run's own alpha allowed it, and a memory holds what was certified at it, so
    their radii stay as they are.
    """
    certificates = [record.certificate for record in labelled(run, "the radius of the true class").records]
    fixed = remade(run.plan.sampling).kind == "fixed"
    if alpha is not None and fixed and entry(run.plan.method).with_earlier is None:
        rule, n0, n = rebuild(run.plan.rule), run.plan.n0 or 0, run.plan.n
        certificates = [_replayed(rule.certifying(n0=n0, n=n, alpha=alpha), c.stages) for c in certificates]
    right = [c.predicted == record.label for c, record in zip(certificates, run.records, strict=True)]
    return np.where(right, [c.radius for c in certificates], 0.0)


def _replayed(procedure: Procedure[Certificate], stages: Sequence[Stage]) -> Certificate:
    """The procedure run on recorded counts; a part that was not asked counts as a tie, which certifies nothing.

    The first request must be recorded, and every request of a scheme without parts: without it the record is damaged.
    """
    recorded = Recording(stages)
    try:
        first = question = next(procedure)
        while True:
            assert not isinstance(question, JointRequest)  # a rule rebuilt from a file shares no networks
            needed = question is first or not question.part or question.stage in recorded
            question = procedure.send(recorded.answer(question) if needed else _tie(question))
    except StopIteration as end:
        result: Certificate = end.value
        return result


def _tie(question: Question) -> Answer:
    if isinstance(question, ScoreRequest):
        return Scores(0, 0.0, 0.0, 0.0, 0.0)
    if isinstance(question, SigmaRequest):
        return 1.0
    assert isinstance(question, VoteRequest)
    fewest, more = divmod(question.n, question.classes)
    return tuple(fewest + (c < more) for c in range(question.classes))
