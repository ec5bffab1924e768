"""The votes of one stage, look by look, and the best bound of all looks. No torch."""

from collections.abc import Callable, Generator
from operator import add

from sigmax.rules.procedure import Answer, Counts, Question, VoteRequest
from sigmax.rules.sampling import Look


def first_look(ask: VoteRequest, schedule: tuple[Look, ...]) -> VoteRequest:
    """The request for the votes up to the first look of a stage."""
    return VoteRequest(ask.part, ask.role, ask.classes, ask.noise, schedule[0].stop, 0, ask.stream, schedule)


class Poll:
    """The votes of one stage, look by look."""

    def __init__(self, ask: VoteRequest, schedule: tuple[Look, ...]) -> None:
        self.ask = ask
        self.schedule = schedule
        self.looks: list[Counts] = []
        self.sums: list[Counts] = []  # all votes up to each look
        self.counts: Counts = (0,) * ask.classes
        self.cast = 0  # of them
        self.exhausted = False  # whether all samples have been cast

    def more(self) -> Generator[Question, Answer, None]:
        """Sample up to the next look."""
        answer = yield self.next_request()
        assert isinstance(answer, tuple)
        self.take(answer)

    def next_request(self) -> VoteRequest:
        """The request for the votes up to the next look."""
        ask, looks = self.ask, len(self.looks)
        start = self.schedule[looks - 1].stop if looks else 0
        stop = self.schedule[looks].stop
        return VoteRequest(ask.part, ask.role, ask.classes, ask.noise, stop, start, ask.stream, self.schedule)

    def take(self, counts: Counts) -> None:
        """The votes up to the next look."""
        self.looks.append(counts)
        self.counts = tuple(map(add, self.counts, counts))
        self.cast = sum(self.counts)
        self.sums.append(self.counts)
        self.exhausted = len(self.looks) == len(self.schedule)

    @property
    def level(self) -> float:
        """What the bounds of the present look may spend; 0 where nothing may be claimed yet."""
        return self.schedule[len(self.looks) - 1].level

    @property
    def recorded(self) -> tuple[Counts, ...]:
        """What a stage keeps of the looks: nothing where there was but one to take."""
        return tuple(self.looks) if len(self.schedule) > 1 else ()


class Best:
    """The best of a bound's values at all looks of a poll so far, each of which it has paid for.

    schedule: what the bound may spend at each look. bound: its value, from the votes up to a look and what is spent.
    """

    def __init__(
        self,
        poll: Poll,
        schedule: tuple[Look, ...],
        bound: Callable[[Counts, float], float],
        better: Callable[[float, float], float],
        nothing: float,
    ) -> None:
        self.poll, self.schedule, self.bound, self.better, self.best = poll, schedule, bound, better, nothing
        self.seen = 0

    def value(self) -> float:
        """The best by now."""
        sums = self.poll.sums
        if self.seen == len(sums):  # it is asked for several times a look
            return self.best
        for look, counts in zip(self.schedule[self.seen :], sums[self.seen :], strict=False):
            if look.level:
                self.best = self.better(self.best, self.bound(counts, look.level))
        self.seen = len(sums)
        return self.best
