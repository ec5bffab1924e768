"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sigmax.errors import RequestError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`, that takes its name when the block ends well and vanishes otherwise.

    Missing folders are made. A reader of `path` sees the old file or the new one, never a part.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise RequestError(
            f"cannot write {path} ({error.strerror or error}); choose a place you may write to, with room left"
        ) from error
