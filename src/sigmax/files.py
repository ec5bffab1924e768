"""Files that appear whole or not at all, and locks against a second writer."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from filelock import BaseFileLock, FileLock, Timeout, UnixFileLock

from sigmax.errors import RequestError

UNPACKED = 64 << 20  # bytes that any file may unpack to ...
RATIO = 100  # ... and how many times its own size a larger one may; deflate alone would allow a thousand
_PART = 1 << 20


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


def unzipped(path: Path, content: bytes) -> bytes:
    """The content of a gzipped file, in memory of at most a multiple of the file's size; refused beyond that."""
    parts, size, most = [], 0, UNPACKED + RATIO * len(content)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            while part := stream.read(_PART):
                parts.append(part)
                size += len(part)
                refuse_bomb(path, size, most)
    except (OSError, EOFError, zlib.error) as error:
        raise RequestError(f"{path} cannot be unzipped ({error}); get it again") from error
    return b"".join(parts)


def unzipped_lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """The lines of a gzipped file, one at a time; refused beyond what `unzipped` would refuse."""
    size, most = 0, UNPACKED + RATIO * path.stat().st_size
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while line := stream.readline(most + 1):
                size += len(line)
                refuse_bomb(path, size, most)
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise RequestError(f"{path} cannot be unzipped ({error}); get it again") from error


def refuse_bomb(path: Path, unpacked: int, most: int) -> None:
    """Raise where a file unpacks to so much that it may be meant to fill the memory."""
    if unpacked > most:
        raise RequestError(
            f"{path} unpacks to more than {most:,} bytes, over {RATIO} times its size, as files made to fill memory "
            "do; if you trust it, unpack it and give the plain file"
        )


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
