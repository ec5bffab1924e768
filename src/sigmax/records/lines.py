"""One line of a journal: JSON that ends in its own checksum, so that a flipped character cannot pass."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sigmax.bounds import Spent
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Outcome, Stage

_MARK = ',"crc":"'
_OF_A_STAGE = tuple(field.name for field in fields(Stage))


@dataclass(frozen=True, slots=True)
class Record:
    """One certified input: which, its true class, its certificate and the seconds it took."""

    index: int
    label: int
    certificate: Certificate
    seconds: float

    @property
    def correct(self) -> bool:
        """Whether the certified class is the true one (an abstention is not)."""
        return self.certificate.predicted == self.label

    def to_json(self) -> dict[str, Any]:
        """Plain data for one line of the journal; floats keep every digit."""
        c = self.certificate
        return {
            "kind": "input",
            "index": self.index,
            "label": self.label,
            "predicted": c.predicted,
            "radius": c.radius,
            "outcome": c.outcome.name.lower(),
            "alpha": c.alpha,
            "seconds": round(float(self.seconds), 6),
            "ledger": [list(entry) for entry in c.ledger],
            "stages": [_plain(stage) for stage in c.stages],
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Record":
        """The record a line holds; every field is checked, because a line may come from anywhere."""
        _require(line.get("kind") == "input", "kind", "'input'", line.get("kind"))
        for name in ("index", "label"):
            _require(type(line.get(name)) is int, name, "a whole number", line.get(name))
        seconds = line.get("seconds", -1.0)
        _require(_is_float(seconds) and seconds >= 0, "seconds", "a number of at least 0", seconds)
        _require(seconds < 1e9, "seconds", "less than a lifetime", seconds)
        try:
            certificate = Certificate(
                predicted=line["predicted"],
                radius=line["radius"],
                outcome=Outcome[line["outcome"].upper()],
                alpha=line["alpha"],
                stages=tuple(_stage(stage) for stage in line["stages"]),
                ledger=tuple(_spent(*entry) for entry in line["ledger"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RequestError(f"the line is not a whole record: {error!r}") from error
        _require(type(certificate.predicted) in (int, type(None)), "predicted", "a class", certificate.predicted)
        _require(_is_float(certificate.radius), "radius", "a finite number", certificate.radius)
        return cls(line["index"], line["label"], certificate, seconds)


def _plain(stage: Stage) -> dict[str, Any]:
    """A stage as plain data; looks are written only where there were several, balls where a memory has some."""
    every = ((name, getattr(stage, name)) for name in _OF_A_STAGE)
    return {name: value for name, value in every if value or name not in ("looks", "balls")}


def _stage(data: Mapping[str, Any]) -> Stage:
    looks = tuple(tuple(look) for look in data.get("looks", ()))
    for counts in (data["counts"], *looks):
        for count in counts:
            _require(type(count) is int and count >= 0, "a count", "a whole number of at least 0", count)
    balls = tuple(tuple(ball) for ball in data.get("balls", ()))
    for ball in balls:
        known = len(ball) == 2 and type(ball[0]) is int and ball[0] >= 0 and _is_float(ball[1]) and ball[1] >= 0
        _require(known, "a ball", "its place in the memory and a distance", ball)
    stage = Stage(**{**data, "counts": tuple(data["counts"]), "looks": looks, "balls": balls})
    _require(type(stage.name) is str, "a stage's name", "text", stage.name)
    _require(_is_float(stage.sigma), "a stage's sigma", "a finite number", stage.sigma)
    _require(type(stage.n) is int, "a stage's n", "a whole number", stage.n)
    for name in ("alpha", "lower", "upper", "radius"):
        value = getattr(stage, name)
        _require(value is None or _is_float(value), f"a stage's {name}", "a finite number", value)
    return stage


def _spent(on: Any, alpha: Any) -> Spent:
    _require(type(on) is str, "what alpha was spent on", "text", on)
    _require(_is_float(alpha) and alpha > 0, "an alpha spent", "a positive number", alpha)
    return Spent(on, alpha)


def _require(holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise RequestError(f"the line is not a whole record: {name} must be {expected}, got {got!r}")


def _is_float(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


def encode(data: Mapping[str, Any]) -> bytes:
    """A line, newline included."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f'{body[:-1]}{_MARK}{_checksum(body)}"}}\n'.encode()


def decode(line: bytes) -> dict[str, Any]:
    """The data of a line that is whole and unaltered; anything else is an error."""
    try:
        text = line.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise RequestError("the line is not text; the file is not a run file, or damaged") from error
    head, mark, tail = text.rpartition(_MARK)
    if not mark or not tail.endswith('"}'):
        raise RequestError("the line does not end in a checksum; the file is not a run file, or the line is torn")
    body = head + "}"
    if _checksum(body) != tail[:-2]:
        raise RequestError("the line was altered: its checksum does not match its content")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the line is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RequestError("the line is not a JSON object")
    return data


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
