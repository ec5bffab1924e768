"""How a scheme asks for votes. A procedure is a generator: it yields an `Ask`, is sent the counts, and in the
end returns its certificate. It knows neither networks nor noise, so the same lines certify an input (the engine
answers), resume a run (the journal answers) and verify a record (its counts answer).
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Prediction, Stage

Result = TypeVar("Result", Certificate, Prediction)
Counts = tuple[int, ...]
Procedure = Generator["Ask", Counts, Result]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for the votes `start` to `stop` of one stage, cast by `network` under noise `sigma`."""

    network: str
    stage: str
    classes: int
    sigma: float
    stop: int
    start: int = 0

    @property
    def n(self) -> int:
        """How many votes are asked for."""
        return self.stop - self.start


class Rule(Protocol):
    """The mathematics of a scheme, free of torch: what to ask for, and what follows from the answers."""

    @property
    def classes(self) -> int:
        """How many classes the scheme tells apart."""

    def certifying(self, *, n0: int, n: int, alpha: float) -> Procedure[Certificate]:
        """The procedure that certifies one input."""

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The procedure that predicts one input."""

    def check_certify(self, *, n0: int, n: int, alpha: float) -> None:
        """Raise unless these draws could ever certify at this alpha."""

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless these draws could ever predict at this alpha."""

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data, from which `sigmax.certify.rules.rebuild` makes it again."""


def replay(procedure: Procedure[Result], stages: Sequence[Stage]) -> Result:
    """Run a procedure on recorded counts instead of fresh votes."""
    recorded = {stage.name: stage for stage in stages}
    try:
        ask = next(procedure)
        while True:
            ask = procedure.send(recorded_counts(ask, recorded))
    except StopIteration as end:
        result: Result = end.value
        return result


def recorded_counts(ask: Ask, recorded: Mapping[str, Stage]) -> Counts:
    """The counts that answer `ask`, or an error that says how the record differs from what was asked."""
    stage = recorded.get(ask.stage)
    if stage is None:
        raise RequestError(f"the record has no stage {ask.stage!r}; it has {sorted(recorded)}")
    if len(stage.counts) != ask.classes:
        raise RequestError(f"stage {ask.stage!r} should count {ask.classes} classes; it counts {len(stage.counts)}")
    if (stage.n, stage.sigma) != (ask.n, ask.sigma):
        raise RequestError(
            f"stage {ask.stage!r} should hold n={ask.n} draws at sigma={ask.sigma}; "
            f"the record has n={stage.n} at sigma={stage.sigma}"
        )
    return stage.counts
