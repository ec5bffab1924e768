"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

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
