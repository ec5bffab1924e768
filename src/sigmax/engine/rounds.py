"""Rounds: many procedures advance together, and every round answers what they ask at the moment.

A GPU votes by itself, so there the procedures are two teams: while the votes of one are cast, the host computes the
bounds of the other and what it asks next. What a team asks follows from its own answers alone, so the layout of every
round does too.
"""

import gc
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic

from sigmax.engine.ahead import Ahead
from sigmax.engine.inputs import Noisy
from sigmax.engine.voter import Voter, voting
from sigmax.engine.votes import Recordings, answer
from sigmax.rules.certificate import Stage
from sigmax.rules.procedure import Answer, Procedure, Question, Result, ScoreRequest, SigmaRequest
from sigmax.rules.replay import Recording

MOST_BATCHES = 64  # that a round fills: the last one is seldom full, so they should be many
HOST = "cpu"  # the device that does not vote by itself
Recorded = Mapping[int, Sequence[Stage]]  # position of an input -> the stages already recorded for it


def run(
    procedures: Sequence[Procedure[Result]],
    inputs: Noisy,
    voters: Mapping[str, Voter],
    known: Recorded | None = None,
    *,
    together: bool = False,
) -> Iterator[tuple[int, Result]]:
    """Results as they are reached, each with the position of its input; `together`: only those of a whole round.

    Networks vote in eval mode; whenever a result is handed out they are as the caller left them.
    """
    results = _rounds(procedures, inputs, voters, known or {}, together)
    while True:
        with voting(voters.values()), collection_paused():
            some = next(results, None)
        if some is None:
            return
        yield from some


@contextmanager
def collection_paused() -> Iterator[None]:
    """Within it Python does not look for garbage in cycles.

    It would again and again, since procedures make thousands of tuples, and find none. What a network leaves in
    cycles is looked for after each batch (see `Casting`).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rounds(
    procedures: Sequence[Procedure[Result]], inputs: Noisy, voters: Mapping[str, Voter], known: Recorded, together: bool
) -> Iterator[list[tuple[int, Result]]]:
    """A round answers the first inputs first and fills no more than `MOST_BATCHES`.

    So large requests do not wait for each other: inputs finish one after another, and a run that is cut loses the votes
    of a few. A CPU is slow: results come batch by batch, where they are wanted so.
    """
    recorded = {position: Recording(stages) for position, stages in known.items()}
    on_host = any(voter.device.type == HOST for voter in voters.values())
    batch = max(voter.batch for voter in voters.values())
    teams = [Asking(procedures)] if on_host else Asking(procedures).in_teams(batch)
    most = MOST_BATCHES * batch // max(1, len(teams))

    def begun(team: Asking[Result]) -> Iterator[list[tuple[int, Answer]]]:
        return answer(team.taken(most), inputs, voters, recorded, team.ahead)

    at_work = deque((team, begun(team)) for team in teams)
    while at_work:
        team, answers = at_work.popleft()
        for replies in answers:
            for position, reply in replies:
                team.reply(position, reply)
            if on_host and team.ended and not together:
                yield team.take_ended()
        team.answer_from(recorded)
        if team.asked and at_work and team.votes < batch:
            at_work[0][0].join(team)  # alone it would not fill a batch
        elif team.asked:
            at_work.append((team, begun(team)))
        if team.ended:
            yield team.take_ended()


class Asking(Generic[Result]):
    """What procedures ask at the moment, by input, and the results of those that ended."""

    def __init__(self, procedures: Sequence[Procedure[Result]], asked: Mapping[int, Question] | None = None) -> None:
        self.procedures: Sequence[Procedure[Result]] = procedures
        first = asked is None
        self.asked = {i: next(procedure) for i, procedure in enumerate(procedures)} if first else dict(asked or {})
        self.ended: list[tuple[int, Result]] = []  # handed out together: it costs a change of every network's mode
        self.ahead = Ahead()

    def in_teams(self, batch: int) -> "list[Asking[Result]]":
        """Two teams, of every second input, where each fills a batch; else all as one."""
        if self.votes < 2 * batch:
            return [self]
        positions = list(self.asked)
        return [Asking(self.procedures, {i: self.asked[i] for i in positions[first::2]}) for first in (0, 1)]

    def join(self, other: "Asking[Result]") -> None:
        """Take over what another team asks."""
        self.asked |= other.asked
        self.ahead.join(other.ahead)
        other.asked = {}

    @property
    def votes(self) -> int:
        """How many votes are asked for."""
        return sum(votes_of(question) for question in self.asked.values())

    def taken(self, most: int) -> dict[int, Question]:
        """The requests of the next round, which are asked no longer."""
        now = first_requests(dict(sorted(self.asked.items())), most)
        for position in now:
            del self.asked[position]
        return now

    def reply(self, position: int, reply: Answer) -> None:
        """Send an answer, and take down what is asked next."""
        try:
            self.asked[position] = self.procedures[position].send(reply)
        except StopIteration as end:
            self.asked.pop(position, None)
            self.ended.append((position, end.value))
            self.ahead.forget(position)

    def answer_from(self, recorded: Recordings) -> None:
        """Answer what was cast before it was asked for."""
        for position in sorted(self.asked):
            while position in self.asked and (waiting := self.ahead.take(position, self.asked[position])):
                question = self.asked[position]
                self.reply(position, waiting[0] or recorded[position].answer(question))

    def take_ended(self) -> list[tuple[int, Result]]:
        """The results that were not handed out yet."""
        some, self.ended = self.ended, []
        return some


def first_requests(asked: Mapping[int, Question], most: int) -> dict[int, Question]:
    """The requests of the first inputs, up to `most` votes together; at least one, and all that need no votes."""
    taken: dict[int, Question] = {}
    votes = 0
    for position, question in asked.items():
        n = votes_of(question)
        if not taken or votes + n <= most:
            taken[position] = question
            votes += n
    return taken


def votes_of(question: Question) -> int:
    """How many votes answer it; scores and sigmas need none."""
    return 0 if isinstance(question, ScoreRequest | SigmaRequest) else question.n
