"""A record in place of an engine: a procedure is run again on the counts that were recorded."""

from collections.abc import Sequence
from typing import NoReturn

from sigmax.errors import RequestError
from sigmax.rules.certificate import Stage
from sigmax.rules.procedure import (
    Answer,
    Counts,
    JointCounts,
    JointRequest,
    Procedure,
    Question,
    Result,
    ScoreRequest,
    Scores,
    VoteRequest,
)

NO_LOOK: tuple[Counts, int] = (), 0


def replay(procedure: Procedure[Result], stages: Sequence[Stage]) -> Result:
    """Run a procedure on recorded counts instead of fresh votes."""
    recorded = Recording(stages)
    try:
        question = next(procedure)
        while True:
            question = procedure.send(recorded.answer(question))
    except StopIteration as end:
        result: Result = end.value
        return result


class Recording:
    """The stages of a record, which answer a procedure as their votes once did."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self._looks: dict[str, tuple[float, dict[int, tuple[Counts, int]]]] = {}  # of each stage: sigma, `_by_start`

    def __contains__(self, stage: str) -> bool:
        return stage in self.stages

    def answer(self, question: Question) -> Answer:
        """What the record holds in answer, or an error that says how it differs from what was asked."""
        if isinstance(question, VoteRequest):
            return self._votes(question)
        if isinstance(question, JointRequest):
            return self._joint(question)
        stage = self._stage(question.stage, question.classes)
        if isinstance(question, ScoreRequest):
            return _recorded_scores(stage)
        if stage.n or stage.sigma <= 0:
            raise RequestError(f"stage {question.stage!r} should hold a noise above 0 and no votes; got {stage}")
        return stage.sigma

    def _joint(self, question: JointRequest) -> JointCounts:
        """The part's own votes must be there; those cast beside them may have been of no use, and so not recorded."""
        *beside, own = question.asks
        return JointCounts((*(self._votes(ask) if ask.stage in self else None for ask in beside), self._votes(own)))

    def _stage(self, name: str, classes: int) -> Stage:
        stage = self.stages.get(name)
        if stage is None:
            raise RequestError(f"the record has no stage {name!r}; it has {sorted(self.stages)}")
        if len(stage.counts) != classes:
            raise RequestError(f"stage {name!r} should count {classes} classes; it counts {len(stage.counts)}")
        return stage

    def _votes(self, ask: VoteRequest) -> Counts:
        """The counts of the look that is asked for."""
        name = ask.stage
        found = self._looks.get(name)
        if found is None:
            stage = self._stage(name, ask.classes)
            found = self._looks[name] = stage.sigma, _by_start(stage.looks or (stage.counts,))
        sigma, looks = found
        look, size = looks.get(ask.start, NO_LOOK)
        if not look or size != ask.n or sigma != ask.noise.sigma:
            self._refuse(ask)
        return look

    def _refuse(self, ask: VoteRequest) -> NoReturn:
        stage = self.stages[ask.stage]
        begun = f" from sample {ask.start} on" if ask.start else ""
        kept = " + ".join(str(sum(look)) for look in stage.looks or (stage.counts,))
        raise RequestError(
            f"stage {ask.stage!r} should hold n={ask.n} samples at sigma={ask.sigma}{begun}; "
            f"the record has n={kept} at sigma={stage.sigma}"
        )


def _by_start(looks: tuple[Counts, ...]) -> dict[int, tuple[Counts, int]]:
    """Looks, each with its votes in all, by how many votes came before them.

    An empty one is none, and is found when the stages are compared.
    """
    found: dict[int, tuple[Counts, int]] = {}
    start = 0
    for look in looks:
        size = sum(look)
        if size:
            found[start] = look, size
        start += size
    return found


def _recorded_scores(stage: Stage) -> Scores:
    if (stage.n, stage.sigma) != (1, 0.0):
        raise RequestError(
            f"stage {stage.name!r} should hold n=1 samples at sigma=0.0; "
            f"the record has n={stage.n} at sigma={stage.sigma}"
        )
    if len(stage.scores) != 4 or stage.scores[0] < stage.scores[1] or min(stage.scores[2:]) < 0:
        raise RequestError(
            f"stage {stage.name!r} should hold the leading score, a rival's that is not above it, the input's size "
            "and the share of rounding; "
            f"the record has {list(stage.scores)}"
        )
    return Scores(stage.counts.index(1), *stage.scores)
