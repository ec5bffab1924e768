"""The driver's book-keeping, by events in an order that real workers seldom send them in."""

from collections.abc import Sequence
from dataclasses import dataclass

from sigmax.jobs.backends.pull import Done, Driver, Event, Failed, Lost, Pool, Ready, Results
from sigmax.jobs.backends.work import Group
from sigmax.progress import silent


@dataclass(frozen=True)
class Result:
    """What an attempt found for an input."""

    index: int
    attempt: int


class Kept:
    """Inputs in one group, and every result that was kept."""

    total = 4

    def __init__(self):
        self.results: list[Result] = []

    @property
    def done(self) -> int:
        return len(self.results)

    def groups(self):
        yield range(self.total)

    def missing(self, indices: Sequence[int]) -> list[int]:
        return [index for index in indices if index not in {result.index for result in self.results}]

    def group(self, indices: Sequence[int]) -> Group:
        return Group(list(indices), [], None)  # type: ignore[arg-type]  # nobody looks at the images here

    def take(self, result: Result) -> None:
        self.results.append(result)


class Scripted(Pool):
    """A worker that answers each attempt at a group as the script has it."""

    size = 1

    def __init__(self, script: Sequence[Sequence[Event]]):
        self.script, self.waiting, self.sent = list(script), [Ready(0, "here")], 0

    def send(self, worker: int, group: Group) -> None:
        self.waiting += self.script[self.sent]
        self.sent += 1

    def events(self, seconds: float) -> list[Event]:
        events, self.waiting = self.waiting, []
        return events

    def close(self) -> None:
        pass


def results(*indices: int, attempt: int) -> Results:
    return Results(0, [Result(index, attempt) for index in indices], 0.1)


def test_the_first_result_of_an_input_is_kept_however_often_it_is_tried_again():
    script = [
        [results(0, 1, attempt=1), Lost(0, "killed"), Ready(0, "here")],
        [results(0, 1, 2, attempt=2), Failed(0, "no", "")],
        [results(0, 1, attempt=3), results(2, 3, attempt=3), Done(0)],
    ]
    kept, pool = Kept(), Scripted(script)
    assert Driver(kept, pool, silent).run() == []
    assert kept.results == [Result(0, 1), Result(1, 1), Result(2, 2), Result(3, 3)]
    assert pool.sent == 3
