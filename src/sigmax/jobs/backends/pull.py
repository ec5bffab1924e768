"""The driver: workers pull groups of inputs, one at a time, and everything they send is taken here and only here.

A group that fails, or whose worker is lost, is tried `ATTEMPTS` times, then each of its missing inputs by itself as
often. An input that still fails is left out. At most one group for each worker is in memory.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sigmax.errors import RunError
from sigmax.jobs.backends.work import Group
from sigmax.progress import Watch
from sigmax.records.failed import FailedInput

ATTEMPTS = 3  # tries of a group, and then of each input by itself
MOST_FAILED = 100  # inputs; more, and it is not the inputs
MOST_SHOWN = 8  # workers whose counts the progress line names


class Target(Protocol):
    """Where inputs come from and results go: a journal, or a list."""

    total: int

    @property
    def done(self) -> int:
        """How many inputs have a result."""

    def groups(self) -> Iterator[Sequence[int]]:
        """The groups in which something is missing."""

    def missing(self, indices: Sequence[int]) -> list[int]:
        """Those without a result."""

    def group(self, indices: Sequence[int]) -> Group:
        """The inputs as a worker needs them."""

    def take(self, result: Any) -> None:
        """Keep a result."""


@dataclass(frozen=True)
class Ready:
    """A worker holds the job and waits for a group. `place`: where it runs and where its log is."""

    worker: int
    place: str


@dataclass(frozen=True)
class Results:
    """A portion of a group's results, and the seconds the worker needed for it."""

    worker: int
    results: Sequence[Any]
    seconds: float


@dataclass(frozen=True)
class Done:
    """A worker has answered its group and waits for the next."""

    worker: int


@dataclass(frozen=True)
class Failed:
    """A worker's group raised; the worker waits for the next. `trace`: what Python would have printed."""

    worker: int
    error: str
    trace: str


@dataclass(frozen=True)
class Lost:
    """A worker ended. The pool starts another in its place, which will be `Ready`."""

    worker: int
    error: str


Event = Ready | Results | Done | Failed | Lost


class Pool(ABC):
    """Workers that hold a job, numbered from 0. Events of one worker come in their order."""

    size: int

    @abstractmethod
    def send(self, worker: int, group: Group) -> None:
        """Give a waiting worker its next group; if it ended meanwhile, `Lost` is an event."""

    @abstractmethod
    def events(self, seconds: float) -> list[Event]:
        """What has happened; waits so many seconds at most for something to happen."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@dataclass
class _Task:
    indices: Sequence[int]
    failures: int = 0


@dataclass
class _Share:
    """What one worker has done."""

    place: str = "not started"
    inputs: int = 0
    busy: float = 0.0
    present: float = 0.0  # seconds from being ready to its last result
    since: float | None = None  # when it was ready, as long as it is


@dataclass
class Driver:
    """One run over a pool."""

    target: Target
    pool: Pool
    watch: Watch
    failed: list[FailedInput] = field(default_factory=list)

    def run(self) -> list[FailedInput]:
        """Answer every input that has no result yet; returns those that failed."""
        self._shares = [_Share() for _ in range(self.pool.size)]
        self._again, self._fresh = deque[_Task](), map(_Task, self.target.groups())
        self._tasks: dict[int, _Task] = {}
        self._idle: set[int] = set()
        self._progress()
        while self._give() or self._tasks:
            for event in self.pool.events(1.0):
                self._handle(event)
            self._progress()
        for share in self._shares:
            _count_presence(share)  # those that waited while the last groups were answered count as well
        self._progress()
        return self.failed

    def _give(self) -> bool:
        """Give waiting workers groups; whether any is left over for the others."""
        while True:
            task = self._again.popleft() if self._again else next(self._fresh, None)
            if task is None:
                return False
            if not self._idle:
                self._again.appendleft(task)
                return True
            worker = min(self._idle)
            self._idle.remove(worker)
            self._tasks[worker] = task
            self.pool.send(worker, self.target.group(task.indices))

    def _handle(self, event: Event) -> None:
        share = self._shares[event.worker]
        if isinstance(event, Results):
            self._take(share, event)
            return
        if isinstance(event, Ready):
            share.place, share.since = event.place, time.monotonic()
        task = self._tasks.pop(event.worker, None)
        if isinstance(event, Lost):
            self._idle.discard(event.worker)
            _count_presence(share)
            share.since = None
        else:
            self._idle.add(event.worker)
        if task is not None:
            self._conclude(task, event, share.place)

    def _take(self, share: _Share, event: Results) -> None:
        fresh = set(self.target.missing([result.index for result in event.results]))  # a lost worker's may come twice
        for result in event.results:
            if result.index in fresh:
                self.target.take(result)
        share.inputs += len(fresh)
        share.busy += event.seconds
        _count_presence(share)

    def _conclude(self, task: _Task, event: Event, place: str) -> None:
        """What becomes of a group whose worker is done with it."""
        missing = self.target.missing(task.indices)
        if not missing:
            return
        if isinstance(event, Done):
            raise RunError(
                f"a worker ({place}) answered inputs {missing[:3]}... without results; please report this bug"
            )
        task.failures += 1
        if task.failures < ATTEMPTS:
            self._again.append(task)
        elif len(task.indices) > 1:
            self._again.extend(_Task([index]) for index in missing)
        else:
            self._fail(missing[0], event, place)

    def _fail(self, index: int, event: Event, place: str) -> None:
        error = event.error if isinstance(event, Failed | Lost) else ""
        trace = event.trace if isinstance(event, Failed) else ""
        self.failed.append(FailedInput(index, error, trace, place))
        if len(self.failed) >= MOST_FAILED:
            raise RunError(
                f"{MOST_FAILED} inputs failed, so it is not the inputs; the last one with {error} ({place}). What is "
                "recorded is safe; correct the cause and repeat the command"
            )

    def _progress(self) -> None:
        if hasattr(self.watch, "note"):
            self.watch.note = self._note()
        self.watch(self.target.done, self.target.total)

    def _note(self) -> str:
        """How many workers there are, how busy they were, and how many inputs each has answered."""
        present = sum(share.since is not None for share in self._shares)
        count = f"{present} of {self.pool.size} workers" if present < self.pool.size else f"{present} workers"
        hours = sum(share.present for share in self._shares)
        busy = f" {100 * min(1.0, sum(s.busy for s in self._shares) / hours):.0f}% busy" if hours else ""
        shown = " + ".join(str(share.inputs) for share in self._shares[:MOST_SHOWN])
        more = " + ..." if len(self._shares) > MOST_SHOWN else ""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{count}{busy} ({shown}{more} inputs{failed})"


def _count_presence(share: _Share) -> None:
    if share.since is not None:
        now = time.monotonic()
        share.present, share.since = share.present + now - share.since, now
