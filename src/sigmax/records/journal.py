"""The journal a run is written to: one line an input, whole or not at all, resumable after any end."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from sigmax.errors import RequestError, RunError
from sigmax.files import lock, unlock, written_whole
from sigmax.records.assembly import Assembly, extended
from sigmax.records.inputs import covers, follow, same
from sigmax.records.lines import Record, encode
from sigmax.records.places import Places, RecordsInFile
from sigmax.records.plan import FORMAT, Plan

BIRTH = f'{{"kind":"plan","format":{FORMAT},"rule":'.encode()  # how every run file begins
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends
SYNC_SECONDS = 1.0  # how much a power cut may cost; a killed process costs nothing


class Journal:
    """A run file open for writing, locked against a second writer.

    An existing file of the same plan is continued; `records` has what it holds, read from it when asked for, so that
    memory does not grow with the run. A torn last line is cut off; a file of another plan, or one damaged elsewhere, is
    refused and left as it is. One with fewer inputs is extended by the first record that is written. One with more that
    has all those asked for stays, and `plan` has its inputs then. `seen` is called with every record that was written.
    """

    def __init__(self, path: Path, plan: Plan, *, seen: Callable[[Record], None] | None = None) -> None:
        self.path = path
        self.plan = plan
        self.finished = False
        self._asked, self._extends = plan, False
        self._seen = seen
        self._synced = time.monotonic()
        self._places, self._seconds = Places(), 0.0
        self._fd = _open(path)
        try:
            self._lock = lock(
                path, held=f"another process is writing {path}; wait for it, or choose another output file"
            )
        except BaseException:
            os.close(self._fd)
            raise
        try:
            self._load()
        except BaseException:
            self._release()
            raise

    @property
    def records(self) -> Mapping[int, Record]:
        """What is recorded, by input."""
        return RecordsInFile(self._fd, self._places)

    @property
    def answered(self) -> bool:
        """Whether nothing is left to do for the inputs asked for."""
        return self.finished or not same(self.plan.inputs, self._asked.inputs)

    def write(self, record: Record) -> None:
        """Append one record; after this returns, killing the process cannot lose it."""
        if self._extends:  # as late as this, so that a command that fails leaves a finished run finished
            self._append(extended(self.plan))
            self._extends = False
        self._places.add(record.index, self._append(encode(record.to_json())))
        self._seconds += record.seconds
        if self._seen is not None:
            self._seen(record)

    def finish(self) -> None:
        """Mark the run as complete."""
        self._refuse_moved()
        self._append(encode({"kind": "end", "inputs": len(self._places), "seconds": round(self._seconds, 6)}))
        self.finished = True

    def close(self) -> None:
        """Release the file; what was written stays, and the run can be continued."""
        os.fsync(self._fd)
        self._release()

    def _release(self) -> None:
        os.close(self._fd)
        unlock(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _load(self) -> None:
        with os.fdopen(os.dup(self._fd), "rb") as file:
            run = _assembled(self.path, self.plan, file)
        if run.plan is None:
            os.ftruncate(self._fd, 0)
            self._append(encode(self.plan.to_json()))
            return
        self.plan = _reconciled(self.path, self.plan, run, run.plan)
        self._extends = not covers(run.plan.inputs, self.plan.inputs)
        self._places, self._seconds = run.seen, run.seconds
        self.finished = run.finished and not self._extends
        if run.size < os.fstat(self._fd).st_size:  # as late as this, since a file that is refused stays as it is
            os.ftruncate(self._fd, run.size)

    def _refuse_moved(self) -> None:
        """Records must not go where nobody will look for them."""
        try:
            here = os.path.samestat(os.fstat(self._fd), self.path.stat())
        except OSError:
            here = False
        if not here:
            raise RunError(
                f"{self.path} was moved or deleted while it was written. Its {len(self._places)} records are in "
                "the moved file, if there is one; put it back and run the same command again to go on"
            )

    def _append(self, line: bytes) -> int:
        """Write a line at the end; returns where it begins."""
        size = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            rest = memoryview(line)
            while rest:  # a nearly full disk takes a part and refuses the rest
                rest = rest[os.write(self._fd, rest) :]
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._fd)
                self._synced = time.monotonic()
                self._refuse_moved()
        except OSError as error:
            os.ftruncate(self._fd, size)
            raise RunError(
                f"cannot write to {self.path} ({error.strerror}). The {len(self._places)} inputs already recorded "
                "are safe; make room and run the same command again to go on"
            ) from error
        return size


def check_goes_on(path: Path, plan: Plan) -> None:
    """Raise where a run could not go on in this file, long before it is opened to be written; writes nothing.

    A lock is not looked for: whoever holds it may be done by then.
    """
    refuse_ending(path)
    beside = next(folder for folder in path.absolute().parents if folder.exists())
    if not beside.is_dir():
        raise RequestError(f"cannot write the run file {path} ({beside} is no folder); choose another folder")
    if not path.exists():
        return
    if not path.is_file():
        raise RequestError(f"{path} is not a regular file; choose another output file")
    try:
        with path.open("rb") as file:
            run = _assembled(path, plan, file)
    except OSError as error:
        raise RequestError(f"cannot read {path} ({error.strerror}); choose another output file") from error
    if run.plan is not None:
        _reconciled(path, plan, run, run.plan)


def _assembled(path: Path, plan: Plan, lines: Iterable[bytes]) -> Assembly:
    """What the whole lines of a run file hold, seen to be of this plan."""
    run = Assembly(keep=False)
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):  # torn
            if number == 1:
                _refuse_foreign(path, line)
            break
        try:
            run.take(line[:-1])
        except RequestError as error:
            raise RequestError(
                f"{path}, line {number}: {error}. Nothing was changed; `sigmax verify` lists all damage. "
                "Choose another output file"
            ) from error
        if number == 1 and run.plan is not None:
            _refuse_other(path, plan, run.plan, inputs=False)
    return run


def _reconciled(path: Path, asked: Plan, run: Assembly, there: Plan) -> Plan:
    """The plan to go on with: as asked, or with the file's inputs where it has more and lacks none of those asked."""
    if same(there.inputs, asked.inputs):
        return asked
    if covers(asked.inputs, there.inputs):
        try:
            there.grown(asked.inputs)
        except RequestError as error:
            raise RequestError(f"{path}: {error}. Choose another output file") from error
        return asked
    if not covers(there.inputs, asked.inputs):
        _refuse_other(path, asked, there)
    missing = sum(index not in run.seen for index in asked.indices)
    if missing:
        raise RequestError(
            f"{path} holds an unfinished run of {len(there.indices):,} inputs, of which {len(run.seen):,} are done; "
            f"{len(asked.indices):,} of them were asked for, and {missing:,} of these are not done. Ask for all to "
            "finish it, or choose another output file"
        )
    if there.in_order and not follow(there.inputs, asked.inputs):
        raise RequestError(
            f"{path} holds a run of {there.method!r}, in which each answer depends on all before it, so inputs cannot "
            "be taken from its middle; ask for its first ones, or choose another output file"
        )
    return replace(asked, inputs=there.inputs)


def _refuse_other(path: Path, plan: Plan, recorded: Plan, *, inputs: bool = True) -> None:
    try:
        differences = plan.differences(recorded, inputs=inputs)
    except RecursionError as error:
        raise RequestError(f"{path} holds a plan nested too deep; choose another output file") from error
    if differences:
        other_images = plan.data.get("fingerprint") != recorded.data.get("fingerprint")
        needed = "the options it was written with" + (", on the images as they were then," if other_images else "")
        raise RequestError(
            f"{path} holds a run of another plan: {'; '.join(differences)}. "
            f"Repeat {needed} to continue it, or choose another output file"
        )


def _open(path: Path) -> int:
    refuse_ending(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o644)
    except OSError as error:
        raise RequestError(
            f"cannot write the run file {path} ({error.strerror}); choose a folder you may write to"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RequestError(f"{path} is not a regular file; choose another output file")
    return fd


def refuse_ending(path: Path) -> None:
    """Raise where a run would be written compressed."""
    if path.suffix == ".gz":
        raise RequestError(f"a run is written plain so that it can be resumed; drop .gz from {path}, gzip it later")


def _refuse_foreign(path: Path, content: bytes) -> None:
    """A file without one whole line may be a run killed at birth; anything else is somebody's and is kept."""
    if content and not (content.startswith(BIRTH) or BIRTH.startswith(content)):
        raise RequestError(f"{path} exists and is not a run file; choose another output file")


def write_all(path: Path, plan: Plan, records: Iterable[Record]) -> None:
    """Write a run in one go, such as an imported log; one that lacks planned inputs is left unfinished.

    The file appears whole or not at all; one that exists already is refused.
    """
    refuse_ending(path)
    if path.exists():
        raise RequestError(f"{path} exists already; choose another output file")
    with written_whole(path) as draft, Journal(draft, plan) as journal:
        for record in records:
            journal.write(record)
        if len(journal.records) == len(plan.indices):
            journal.finish()
