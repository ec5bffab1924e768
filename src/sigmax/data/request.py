"""What a loader is asked for, with the refusals that all loaders share."""

from dataclasses import dataclass
from pathlib import Path

from sigmax.errors import RequestError


@dataclass(frozen=True)
class Request:
    """One call of `load`: the source taken apart at its first colon, the split, and the image size.

    kind   what stands before the colon, the name the loader is registered under
    path   what stands after it, "" without a colon
    split  "train", "test" or whatever the source calls its parts
    size   side of the square images wanted, or None for the size they have
    """

    kind: str
    path: str
    split: str
    size: int | None = None

    @property
    def source(self) -> str:
        """The source as the user wrote it."""
        return f"{self.kind}:{self.path}" if self.path else self.kind

    def location(self, expected: str) -> Path:
        """The path asked for, which exists; `expected` says what should lie there if it does not."""
        if not self.path:
            raise RequestError(
                f"the source {self.kind} needs a path: write {self.kind}:PATH, where PATH is {expected}"
            )
        try:
            path = Path(self.path).expanduser()
            found = path.exists()
        except (OSError, RuntimeError) as error:  # too long a name, a closed folder, the home of nobody
            raise RequestError(
                f"{self.source}: no such path can be opened ({error}); expected {expected}"
            ) from error
        if not found:
            raise RequestError(f"{self.source}: {path} does not exist; expected {expected}")
        return path

    def refuse_path(self) -> None:
        """For sources that bring their own data."""
        if self.path:
            raise RequestError(f"the source {self.kind} takes no path, got {self.path!r}; write {self.kind} alone")

    def refuse_size(self) -> None:
        """For sources whose images have one size already: resizing them would change what is certified."""
        if self.size is not None:
            raise RequestError(
                f"{self.source}: an image size is only for folders, got {self.size}; leave it out and the "
                "images keep their own size"
            )

    def only_splits(self, *known: str) -> None:
        """For sources whose splits are fixed."""
        if self.split not in known:
            raise RequestError(
                f"{self.source}: the splits are {' and '.join(known)}, got {self.split!r}; ask for one of them"
            )
