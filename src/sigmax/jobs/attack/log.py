"""The results of an attack as a file of JSON lines, one an input: an interrupted attack goes on in it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from sigmax.errors import RequestError
from sigmax.files import lock, unlock
from sigmax.records.lines import decode, encode
from sigmax.request import refuse_other


@dataclass(frozen=True)
class Attacked:
    """What the search around one certified input found."""

    index: int
    certified: int  # the class
    radius: float
    nearest: float | None  # distance of the nearest confirmed point of another class, rounded up; None: none was found
    answer: int | None  # the class there
    method: str | None  # that found it
    violation: bool  # whether it lies inside the certified ball
    inside_tests: int  # points of the ball that were put to the test
    predictions: int
    gradients: bool  # whether the networks had them
    seconds: float

    @property
    def ratio(self) -> float | None:
        """The distance found over the radius certified: below 1 the certificate is false, at 1 it is tight."""
        return None if self.nearest is None else self.nearest / self.radius


class AttackLog:
    """The file, open for writing and locked; of another request it is refused, and a torn last line is cut off."""

    def __init__(self, path: Path, request: Mapping[str, Any]) -> None:
        self.path = path
        self.done: dict[int, Attacked] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"cannot write {path} ({error.strerror}); choose a folder you may write to") from error
        self._lock = lock(path, held=f"another process is writing {path}; wait for it, or choose another folder")
        try:
            self._load(request)
        except BaseException:
            unlock(self._lock)
            raise

    def write(self, found: Attacked) -> None:
        """Append one result; killing the process cannot lose it."""
        self._append(asdict(found))
        self.done[found.index] = found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        unlock(self._lock)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(encode(line))

    def _load(self, request: Mapping[str, Any]) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if content and not whole:
            raise RequestError(f"{self.path} exists and is no attack's log; choose another folder")
        if not whole:
            self._append(request)
            return
        first, *rest = map(decode, whole.splitlines())
        refuse_other(first, request, f"{self.path} holds another attack", "Repeat that one, or choose another folder")
        self.done = {line["index"]: Attacked(**line) for line in rest}
        if len(whole) < len(content):
            self.path.write_bytes(whole)
