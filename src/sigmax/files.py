"""Files that appear whole or not at all, and locks against a second writer."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from filelock import BaseFileLock, FileLock, Timeout, UnixFileLock

from sigmax.errors import RequestError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path` to write to; it takes the place of `path` only when the block ends well.

    A reader sees the old file or the new one, never a part of either, even if the process is killed or the
    machine loses power: the draft reaches the disk before it is renamed.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        yield draft
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def lock(path: Path, *, held: str) -> BaseFileLock:
    """The lock of a file, held until `unlock`: a hidden file beside it, on every system that filelock knows.

    `held` is the refusal where another process holds it.
    """
    place = path.resolve()
    found = FileLock(place.with_name(f".{place.name}.lock"), thread_local=False)
    try:
        found.acquire(blocking=False)
    except Timeout as error:
        raise RequestError(held) from error
    except OSError as error:
        raise RequestError(f"cannot lock {path} ({error.strerror}); choose a folder you may write to") from error
    return found


def unlock(lock: BaseFileLock) -> None:
    """Release a lock and remove its file."""
    if isinstance(lock, UnixFileLock):  # others remove their file themselves
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, so that nobody else's goes
    lock.release()


def check_writable(path: Path) -> None:
    """Refuse a place where no file can be written, before there is anything to write; missing folders are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _refused(path, error) from error


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """The same for a file the user asked for: missing folders are made, and a place that will not do is refused."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            yield draft
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> RequestError:
    return RequestError(
        f"cannot write {path} ({error.strerror or error}); choose a place you may write to, with room left"
    )
