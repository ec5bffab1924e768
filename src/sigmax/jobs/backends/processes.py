"""Workers that are processes of this machine, started afresh (spawn) and each given the job once through its pipe."""

import faulthandler
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sigmax.errors import RequestError, RunError
from sigmax.jobs.backends.pull import Done, Event, Failed, Lost, Pool, Ready, Results
from sigmax.jobs.backends.work import Group, Job, packed, portions, unpacked

MOST_FAILED_STARTS = 3  # in a row, of any workers: then it is not bad luck
LAST_LINES = 12  # of a log, in an error
END_SECONDS = 5.0  # that a worker has to end by itself


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False


class Processes(Pool):
    """`size` worker processes. On a machine with GPUs each sees its own GPU, or shares one with others.

    `gpus_per_worker`: from 0 (none is assigned: all see what this process sees) to 1; 0.5 puts two on each GPU.
    """

    def __init__(self, job: Job, size: int, *, gpus_per_worker: float = 0.0) -> None:
        self.size = size
        self._gpus = gpus_of_workers(size, gpus_per_worker) if gpus_per_worker else [None] * size
        self._content = packed(job)
        self._logs = Path(tempfile.mkdtemp(prefix="sigmax-workers-"))
        self._failed_starts, self._keep_logs = 0, False
        self._workers: list[_Worker] = []
        try:
            self._workers += (self._started(number) for number in range(size))
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, group: Group) -> None:
        """Through the worker's pipe; it is waiting, so this does not block."""
        with suppress(OSError):  # it has ended: its sentinel says so to `events`
            self._workers[worker].connection.send(group)

    def events(self, seconds: float) -> list[Event]:
        """What the pipes hold; a worker that ended is replaced."""
        owners: dict[Any, int] = {}
        for number, worker in enumerate(self._workers):
            owners |= {worker.connection: number, worker.process.sentinel: number}
        numbers = {owners[part] for part in wait(owners, seconds)}
        return [event for number in sorted(numbers) for event in self._events(number)]

    def close(self) -> None:
        """End the workers; their logs go too, unless one of them failed."""
        for worker in self._workers:
            worker.connection.close()  # a worker that waits for a group ends by this
            worker.process.terminate()
        end = time.monotonic() + END_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        if not self._keep_logs:
            shutil.rmtree(self._logs, ignore_errors=True)

    def _log(self, number: int) -> Path:
        return self._logs / f"worker-{number}.log"

    def _started(self, number: int) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        threads = max(1, (os.cpu_count() or 1) // self.size)
        given = number, theirs, str(self._log(number)), threads
        process = context.Process(target=work, args=given, name=f"worker-{number}")
        with _sees(self._gpus[number]):
            process.start()
        theirs.close()  # so that the worker's end is the end of the pipe
        return _Worker(process, ours)

    def _events(self, number: int) -> Iterator[Event]:
        worker = self._workers[number]
        try:
            while worker.connection.poll():
                event: Event | None = worker.connection.recv()
                if event is None:  # it is there, and waits for the job
                    worker.connection.send_bytes(self._content)
                    continue
                self._keep_logs |= isinstance(event, Failed)
                if isinstance(event, Ready):
                    worker.ready, self._failed_starts = True, 0
                    event = Ready(number, f"worker {number}, process {worker.process.pid}, log {self._log(number)}")
                yield event
        except (EOFError, OSError):
            worker.process.join()  # the pipe is at its end, and so is the worker
        if not worker.process.is_alive():
            yield self._replaced(number, worker)

    def _replaced(self, number: int, worker: _Worker) -> Lost:
        self._keep_logs = True
        worker.connection.close()
        code = worker.process.exitcode or 0
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        what = f"worker {number} (process {worker.process.pid}) ended by {reason}; its log is {self._log(number)}"
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise RunError(f"workers cannot start: {what}, and ends with\n{last_lines(self._log(number))}")
        self._workers[number] = self._started(number)
        return Lost(number, what)


def gpus_of_workers(size: int, gpus_per_worker: float) -> list[str | None]:
    """What CUDA_VISIBLE_DEVICES is for each worker."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    names = names[: torch.cuda.device_count()]
    on_each = int(1 / gpus_per_worker + 1e-9)
    if size > on_each * len(names):
        raise RequestError(
            f"{size} workers with {gpus_per_worker:g} GPUs each need more than the {len(names)} GPUs of this machine; "
            f"ask for at most {on_each * len(names)} workers, or for a smaller share of a GPU"
        )
    return [names[number % len(names)] for number in range(size)]


@contextmanager
def _sees(gpus: str | None) -> Iterator[None]:
    """Processes started within see only these GPUs."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    try:
        yield
    finally:
        if gpus is not None:
            os.environ.pop("CUDA_VISIBLE_DEVICES")
            if before is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = before


def last_lines(log: Path) -> str:
    """The end of a log, for an error."""
    try:
        lines: Sequence[str] = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        lines = []
    return "\n".join(lines) or "(nothing: it ended before it wrote; see what it printed above)"


def work(number: int, connection: Connection, log: str, threads: int) -> None:
    """A worker's life: take the job, then groups until the driver's end of the pipe is closed."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable()
    torch.set_num_threads(threads)
    try:
        connection.send(None)
        job = unpacked(connection.recv_bytes())
        connection.send(Ready(number, ""))
        while True:
            _answer(job, connection.recv(), number, connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the driver has ended


def _answer(job: Job, group: Group, number: int, connection: Connection) -> None:
    try:
        for results, seconds in portions(job.results(group)):
            connection.send(Results(number, results, seconds))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # a model is the user's code: whatever it raises, the driver hears of it
        traceback.print_exc()
        connection.send(Failed(number, f"{type(error).__name__}: {error}", traceback.format_exc()))
    else:
        connection.send(Done(number))
