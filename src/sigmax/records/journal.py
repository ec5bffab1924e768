"""The journal a run is written to: one line an input, whole or not at all, resumable after any end."""

import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from sigmax.errors import RequestError, RunError
from sigmax.files import lock, unlock, written_whole
from sigmax.records.assembly import Assembly, extended
from sigmax.records.inputs import covers, follow, same
from sigmax.records.lines import Record, encode
from sigmax.records.plan import FORMAT, Plan

BIRTH = f'{{"kind":"plan","format":{FORMAT},"rule":'.encode()  # how every run file begins
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends
SYNC_SECONDS = 1.0  # how much a power cut may cost; a killed process costs nothing


class Journal:
    """A run file open for writing, locked against a second writer.

    An existing file of the same plan is continued (`records` holds what it has); a torn last line is cut off;
    a file of another plan, or one damaged elsewhere, is refused and left as it is. A file of the same plan with fewer
    inputs is extended: the first record that is written says so. One with more inputs that has all those asked for is
    left as it is, and `plan` has its inputs then. `seen` is called with every record that was written.
    """

    def __init__(self, path: Path, plan: Plan, *, seen: Callable[[Record], None] | None = None) -> None:
        self.path = path
        self.plan = plan
        self.records: dict[int, Record] = {}
        self.finished = False
        self._asked, self._extends = plan, False
        self._seen = seen
        self._synced = time.monotonic()
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
    def answered(self) -> bool:
        """Whether nothing is left to do for the inputs asked for."""
        return self.finished or not same(self.plan.inputs, self._asked.inputs)

    def write(self, record: Record) -> None:
        """Append one record; after this returns, killing the process cannot lose it."""
        if self._extends:  # as late as this, so that a command that fails leaves a finished run finished
            self._append(extended(self.plan))
            self._extends = False
        self._append(encode(record.to_json()))
        self.records[record.index] = record
        if self._seen is not None:
            self._seen(record)

    def finish(self) -> None:
        """Mark the run as complete."""
        seconds = sum(record.seconds for record in self.records.values())
        self._refuse_moved()
        self._append(encode({"kind": "end", "inputs": len(self.records), "seconds": round(seconds, 6)}))
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self) -> None:
        content = _read_all(self._fd)
        run = _assembled(self.path, self.plan, content)
        if run is None:
            os.ftruncate(self._fd, 0)
            self._append(encode(self.plan.to_json()))
            return
        assert run.plan is not None
        self.plan = _reconciled(self.path, self.plan, run, run.plan)
        self._extends = not covers(run.plan.inputs, self.plan.inputs)
        self.records, self.finished = run.records, run.finished and not self._extends
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._fd, whole)

    def _refuse_moved(self) -> None:
        """Records must not go where nobody will look for them."""
        try:
            here = os.path.samestat(os.fstat(self._fd), self.path.stat())
        except OSError:
            here = False
        if not here:
            raise RunError(
                f"{self.path} was moved or deleted while it was written. Its {len(self.records)} records are in "
                "the moved file, if there is one; put it back and run the same command again to go on"
            )

    def _append(self, line: bytes) -> None:
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
                f"cannot write to {self.path} ({error.strerror}). The {len(self.records)} inputs already recorded "
                "are safe; make room and run the same command again to go on"
            ) from error


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
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"cannot read {path} ({error.strerror}); choose another output file") from error
    run = _assembled(path, plan, content)
    if run is not None and run.plan is not None:
        _reconciled(path, plan, run, run.plan)


def _assembled(path: Path, plan: Plan, content: bytes) -> Assembly | None:
    """What the whole lines of a run file hold, seen to be of this plan; None where there is no line yet."""
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    if not lines:
        _refuse_foreign(path, content)
        return None
    run = Assembly()
    for number, line in enumerate(lines, start=1):
        _take(path, run, number, line)
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


def _take(path: Path, run: Assembly, number: int, line: bytes) -> None:
    try:
        run.take(line.rstrip(b"\n"))
    except RequestError as error:
        raise RequestError(
            f"{path}, line {number}: {error}. Nothing was changed; `sigmax verify` lists all damage. "
            "Choose another output file"
        ) from error


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


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


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
