"""How a scheme samples. A procedure is a generator: it yields a `VoteRequest` (or a `ScoreRequest`), is sent the
answer, and in the end returns its certificate. It knows neither networks nor noise, so the same lines certify an
input (the engine answers), resume a run (the journal answers) and verify a record (its counts answer).
"""

import math
from bisect import bisect_right
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from sigmax.bounds import Spent
from sigmax.radius.noise import Noise
from sigmax.rules.certificate import Certificate, Prediction, Role, joined

if TYPE_CHECKING:
    from sigmax.rules.sampling import Sampling

Result = TypeVar("Result", Certificate, Prediction)
Value = TypeVar("Value")
Counts = tuple[int, ...]
NETWORK = "base"  # how the one network of a part is called


class VoteRequest(NamedTuple):
    """A request for the votes `start` to `stop` of one stage, cast by the part's network under `noise`.

    `classes`: how many outcomes a vote can have (a class each, and one more where the network may defer).
    `stream`: the stage whose samples they are cast on, where it is another one's.
    `schedule`: all looks of the stage, each with where it stops first, where this is one of several.
    `then`: what is likely to be asked after the last of them. It decides nothing.
    """

    part: str
    role: Role
    classes: int
    noise: Noise
    stop: int
    start: int = 0
    stream: str = ""
    schedule: tuple[tuple[int, float], ...] = ()
    then: "VoteRequest | None" = None

    @property
    def n(self) -> int:
        """How many votes are asked for."""
        return self.stop - self.start

    @property
    def end(self) -> int:
        """Where the samples of the stage end, as far as is known: with its last look."""
        return self.schedule[-1][0] if self.schedule else self.stop

    @property
    def sigma(self) -> float:
        """The level of the noise."""
        return self.noise.sigma

    @property
    def stage(self) -> str:
        """The name of the stage that the votes belong to."""
        return joined(self.part, self.role)

    @property
    def network(self) -> str:
        """The network that votes."""
        return joined(self.part, NETWORK)

    def likely_next(self) -> "VoteRequest | None":
        """What is asked next if this does not show enough: the next look, or what comes after the last one."""
        after = bisect_right(self.schedule, (self.stop, math.inf))
        if after == len(self.schedule):
            return self.then
        return self._replace(stop=self.schedule[after][0], start=self.stop)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A request for the scores that the part's network gives the input itself, without noise."""

    part: str
    classes: int
    role: Role = Role.SCORE

    @property
    def stage(self) -> str:
        """The name of the stage that the scores belong to."""
        return joined(self.part, self.role)

    @property
    def network(self) -> str:
        """The network that is asked."""
        return joined(self.part, NETWORK)


@dataclass(frozen=True, slots=True)
class Scores:
    """The leading class of an input, its score and the strongest rival's.

    `size`: the input's l2 norm plus the root of how many numbers it has, with which the rounding of scores grows;
    `rounding`: what a score may be off, as a share of constant * size + |score| (see `radius.rounding`).
    """

    top: int
    score: float
    rival: float
    size: float
    rounding: float


@dataclass(frozen=True, slots=True)
class SigmaRequest:
    """A request for the noise level that this input gets from the part's field or search; 0 classes vote on it.

    Answered by the scheme itself (`with_noise`) before any vote, and recorded as a stage without votes: a record
    states which noise was used, and only the scheme with its data can tell why.
    """

    part: str
    classes: int = 0
    role: Role = Role.SIGMA

    @property
    def stage(self) -> str:
        """The name of the stage that the noise level is recorded in."""
        return joined(self.part, self.role)


@dataclass(frozen=True, slots=True)
class JointRequest:
    """Votes of several networks on the same samples, asked for at once: what they share is computed once."""

    asks: tuple[VoteRequest, ...]

    @property
    def n(self) -> int:
        """How many samples are asked for."""
        return self.asks[0].n


@dataclass(frozen=True, slots=True)
class JointCounts:
    """The counts that answer each request of a `JointRequest`; None where a record lacks them: they were not needed."""

    counts: tuple[Counts | None, ...]


Question = VoteRequest | ScoreRequest | SigmaRequest | JointRequest
Answer = Counts | Scores | float | JointCounts
Procedure = Generator[Question, Answer, Result]


class Rule(Protocol):
    """The mathematics of a scheme, free of torch: what to ask for, and what follows from the answers."""

    @property
    def classes(self) -> int:
        """How many classes the scheme has."""

    @property
    def norm(self) -> str:
        """The norm that its radii are in."""

    @property
    def is_random(self) -> bool:
        """Whether its certificates may be wrong by chance, and so need a share of alpha."""

    @property
    def largest_noise(self) -> float:
        """The largest sigma of any classifier in it (a router is none); 0 without noise."""

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: "Sampling" = ...) -> Procedure[Certificate]:
        """The procedure that certifies one input."""

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The procedure that predicts one input."""

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: "Sampling" = ...) -> None:
        """Raise unless these samples could ever certify at this alpha."""

    def largest_radius(self, *, n: int, alpha: float, sampling: "Sampling" = ...) -> float:
        """A radius that no certificate from these samples can exceed; what targets are held against."""

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless these samples could ever predict at this alpha."""

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data, from which `sigmax.rules.registry.rebuild` makes it again."""


def votes(ask: VoteRequest) -> Generator[Question, Answer, Counts]:
    """Ask for votes from within a procedure: `counts = yield from votes(ask)`."""
    answer = yield ask
    assert isinstance(answer, tuple)
    return answer


def scores(look: ScoreRequest) -> Generator[Question, Answer, Scores]:
    """Ask for scores from within a procedure."""
    answer = yield look
    assert isinstance(answer, Scores)
    return answer


def own_noise(local: SigmaRequest) -> Generator[Question, Answer, float]:
    """Ask for the input's own noise from within a procedure."""
    answer = yield local
    assert isinstance(answer, float)
    return answer


def with_noise(procedure: Procedure[Result], noise: Mapping[str, float]) -> Procedure[Result]:
    """The procedure given the input's own noise, by the stages that ask for it: only votes are left to ask for."""
    try:
        question = next(procedure)
        while True:
            known = noise[question.stage] if isinstance(question, SigmaRequest) else (yield question)
            question = procedure.send(known)
    except StopIteration as end:
        result: Result = end.value
        return result


def within(name: str, procedure: Procedure[Result]) -> Procedure[Result]:
    """The procedure as a part of a larger one: its parts, stages and payments are called `name/...`."""
    return renamed(name, (yield from asking_as(name, procedure)))


def asking_as(name: str, part: Generator[Question, Answer, Value]) -> Generator[Question, Answer, Value]:
    """Anything that asks, with its parts called `name/...`.

    The stage is part of the noise's address, so parts never share their noise.
    """
    try:
        question = next(part)
        while True:
            question = part.send((yield _asked_as(name, question)))
    except StopIteration as end:
        value: Value = end.value
        return value


def _asked_as(name: str, question: Question) -> Question:
    if isinstance(question, JointRequest):
        return JointRequest(tuple(_vote_as(name, ask) for ask in question.asks))
    if isinstance(question, VoteRequest):
        return _vote_as(name, question)
    return replace(question, part=joined(name, question.part))


def _vote_as(name: str, ask: VoteRequest) -> VoteRequest:
    stream = joined(name, ask.stream) if ask.stream else ""
    part = joined(name, ask.part)
    then = None if ask.then is None else _vote_as(name, ask.then)
    return VoteRequest(part, ask.role, ask.classes, ask.noise, ask.stop, ask.start, stream, ask.schedule, then)


def in_step(ask: VoteRequest, part: Procedure[Result]) -> Generator[Question, Answer, tuple[Counts | None, Result]]:
    """A part run to its end, and the votes asked for, on the same samples as the part's; None where none are like them.

    Sound wherever every bound has paid for itself: the union bound asks for no independence.
    """
    counts: Counts | None = None
    asked = False
    try:
        question = next(part)
        while True:
            if not asked and isinstance(question, VoteRequest) and _like(ask, question):
                asked = True
                both = yield JointRequest((ask, question._replace(stream=ask.stream or ask.stage)))
                assert isinstance(both, JointCounts)
                counts, theirs = both.counts
                assert theirs is not None
                question = part.send(theirs)
            else:
                question = part.send((yield question))
    except StopIteration as end:
        result: Result = end.value
    return counts, result


def _like(one: VoteRequest, other: VoteRequest) -> bool:
    return (one.start, one.stop, one.noise) == (other.start, other.stop, other.noise)


def renamed(name: str, result: Result) -> Result:
    """The result with its parts, stages and payments called `name/...`."""
    stages = tuple(stage.within(name) for stage in result.stages)
    ledger = tuple(Spent(joined(name, entry.on), entry.alpha) for entry in result.ledger)
    if isinstance(result, Prediction):
        return replace(result, stages=stages, ledger=ledger)
    answered = None if result.answered_by is None else joined(name, result.answered_by)
    limited = None if result.limited_by is None else joined(name, result.limited_by)
    return replace(result, stages=stages, ledger=ledger, answered_by=answered, limited_by=limited)
