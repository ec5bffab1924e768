"""How a scheme asks. A procedure is a generator: it yields an `Ask` for votes (or a `Look` at scores), is sent the
answer, and in the end returns its certificate. It knows neither networks nor noise, so the same lines certify an
input (the engine answers), resume a run (the journal answers) and verify a record (its counts answer).
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sigmax.bounds import Spent
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Prediction, Stage

if TYPE_CHECKING:
    from sigmax.certify.sampling import Sampling

Result = TypeVar("Result", Certificate, Prediction)
Value = TypeVar("Value")
Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for the votes `start` to `stop` of one stage, cast by `network` under noise `sigma`.

    `noise`: the stage whose draws they are cast on, where it is another one's.
    """

    network: str
    stage: str
    classes: int
    sigma: float
    stop: int
    start: int = 0
    noise: str = ""

    @property
    def n(self) -> int:
        """How many votes are asked for."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Look:
    """A request for the scores that `network` gives the input itself, without noise."""

    network: str
    stage: str
    classes: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The leading class of an input, its score and the strongest rival's."""

    top: int
    score: float
    rival: float


@dataclass(frozen=True, slots=True)
class Local:
    """A request for the noise that this input gets from `network`, a field or a search; 0 classes vote on it.

    Answered by the scheme itself (`with_noise`) before any vote, and recorded as a stage without votes: a record
    tells which noise was used, and only the scheme with its data can tell why.
    """

    network: str
    stage: str
    classes: int = 0


@dataclass(frozen=True, slots=True)
class Together:
    """Votes of several networks on the same draws, asked for at once: what they share is done once."""

    asks: tuple[Ask, ...]

    @property
    def n(self) -> int:
        """How many draws are asked for."""
        return self.asks[0].n


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts that answer each ask of a `Together`."""

    counts: tuple[Counts, ...]


Question = Ask | Look | Local | Together
Answer = Counts | Seen | float | Counted
Procedure = Generator[Question, Answer, Result]


class Rule(Protocol):
    """The mathematics of a scheme, free of torch: what to ask for, and what follows from the answers."""

    @property
    def classes(self) -> int:
        """How many classes the scheme tells apart."""

    @property
    def pays(self) -> bool:
        """Whether its certificates may be wrong by chance, and so need a share of alpha."""

    @property
    def largest_noise(self) -> float:
        """The largest sigma of any classifier in it (a router is none); 0 without noise."""

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: "Sampling" = ...) -> Procedure[Certificate]:
        """The procedure that certifies one input."""

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The procedure that predicts one input."""

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: "Sampling" = ...) -> None:
        """Raise unless these draws could ever certify at this alpha."""

    def largest_radius(self, *, n: int, alpha: float, sampling: "Sampling" = ...) -> float:
        """A radius that no certificate from these draws can exceed; what targets are held against."""

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless these draws could ever predict at this alpha."""

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data, from which `sigmax.certify.rebuild.rebuild` makes it again."""


def votes(ask: Ask) -> Generator[Question, Answer, Counts]:
    """Ask for votes from within a procedure: `counts = yield from votes(ask)`."""
    answer = yield ask
    assert isinstance(answer, tuple)
    return answer


def scores(look: Look) -> Generator[Question, Answer, Seen]:
    """Ask for scores from within a procedure."""
    answer = yield look
    assert isinstance(answer, Seen)
    return answer


def own_noise(local: Local) -> Generator[Question, Answer, float]:
    """Ask for the input's own noise from within a procedure."""
    answer = yield local
    assert isinstance(answer, float)
    return answer


def with_noise(procedure: Procedure[Result], noise: Mapping[str, float]) -> Procedure[Result]:
    """The procedure told the input's own noise, by the stages that ask for it: only votes are left to ask for."""
    try:
        question = next(procedure)
        while True:
            known = noise[question.stage] if isinstance(question, Local) else (yield question)
            question = procedure.send(known)
    except StopIteration as end:
        result: Result = end.value
        return result


def within(name: str, procedure: Procedure[Result]) -> Procedure[Result]:
    """The procedure as a part of a larger one: its networks, stages and payments are called `name/...`."""
    return renamed(name, (yield from asking_as(name, procedure)))


def asking_as(name: str, part: Generator[Question, Answer, Value]) -> Generator[Question, Answer, Value]:
    """Anything that asks, with its networks and stages called `name/...`.

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
    if isinstance(question, Together):
        return Together(tuple(_ask_as(name, ask) for ask in question.asks))
    if isinstance(question, Ask):
        return _ask_as(name, question)
    return replace(question, network=prefixed(name, question.network), stage=prefixed(name, question.stage))


def _ask_as(name: str, ask: Ask) -> Ask:
    noise = prefixed(name, ask.noise) if ask.noise else ""
    return replace(ask, network=prefixed(name, ask.network), stage=prefixed(name, ask.stage), noise=noise)


def in_step(ask: Ask, part: Procedure[Result]) -> Generator[Question, Answer, tuple[Counts, Result]]:
    """A part run to its end, and the votes asked for: on the same draws as the part's, where those are like them.

    Sound wherever every bound has paid for itself: the union bound asks for no independence.
    """
    counts: Counts | None = None
    try:
        question = next(part)
        while True:
            if counts is None and isinstance(question, Ask) and _like(ask, question):
                both = yield Together((ask, replace(question, noise=ask.noise or ask.stage)))
                assert isinstance(both, Counted)
                counts, theirs = both.counts
                question = part.send(theirs)
            else:
                question = part.send((yield question))
    except StopIteration as end:
        result: Result = end.value
    if counts is None:
        counts = yield from votes(ask)
    return counts, result


def _like(one: Ask, other: Ask) -> bool:
    return (one.start, one.stop, one.sigma) == (other.start, other.stop, other.sigma)


def renamed(name: str, result: Result) -> Result:
    """The result with its stages and payments called `name/...`."""
    stages = tuple(replace(stage, name=prefixed(name, stage.name)) for stage in result.stages)
    ledger = tuple(Spent(prefixed(name, entry.on), entry.alpha) for entry in result.ledger)
    return replace(result, stages=stages, ledger=ledger)


def prefixed(name: str, inner: str) -> str:
    """How a part's stage or network is called in the whole."""
    return f"{name}/{inner}"


def replay(procedure: Procedure[Result], stages: Sequence[Stage]) -> Result:
    """Run a procedure on recorded counts instead of fresh votes."""
    recorded = {stage.name: stage for stage in stages}
    try:
        question = next(procedure)
        while True:
            question = procedure.send(recorded_answer(question, recorded))
    except StopIteration as end:
        result: Result = end.value
        return result


def recorded_answer(question: Question, recorded: Mapping[str, Stage]) -> Answer:
    """What a record holds in answer to `question`, or an error that says how it differs from what was asked."""
    if isinstance(question, Together):
        answers = [recorded_answer(ask, recorded) for ask in question.asks]
        return Counted(tuple(counts for counts in answers if isinstance(counts, tuple)))
    stage = recorded.get(question.stage)
    if stage is None:
        raise RequestError(f"the record has no stage {question.stage!r}; it has {sorted(recorded)}")
    if len(stage.counts) != question.classes:
        raise RequestError(
            f"stage {question.stage!r} should count {question.classes} classes; it counts {len(stage.counts)}"
        )
    if isinstance(question, Ask):
        return _recorded_votes(question, stage)
    if isinstance(question, Local):
        if stage.n or stage.sigma <= 0:
            raise RequestError(f"stage {question.stage!r} should hold a noise above 0 and no votes; got {stage}")
        return stage.sigma
    if (stage.n, stage.sigma) != (1, 0.0):
        raise RequestError(
            f"stage {question.stage!r} should hold n=1 draws at sigma=0.0; "
            f"the record has n={stage.n} at sigma={stage.sigma}"
        )
    if stage.lower is None or stage.upper is None or stage.lower < stage.upper:
        raise RequestError(
            f"stage {question.stage!r} should hold the leading score and a rival's that is not above it; "
            f"the record has {stage.lower} and {stage.upper}"
        )
    return Seen(stage.counts.index(1), stage.lower, stage.upper)


def _recorded_votes(ask: Ask, stage: Stage) -> Counts:
    """The counts of the look that the ask is for."""
    start = 0
    for look in stage.looks or (stage.counts,):
        if start == ask.start and (sum(look), stage.sigma) == (ask.n, ask.sigma):
            return look
        start += sum(look)
    begun = f" from draw {ask.start} on" if ask.start else ""
    kept = " + ".join(str(sum(look)) for look in stage.looks or (stage.counts,))
    raise RequestError(
        f"stage {ask.stage!r} should hold n={ask.n} draws at sigma={ask.sigma}{begun}; "
        f"the record has n={kept} at sigma={stage.sigma}"
    )
