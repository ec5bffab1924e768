"""One line of a journal: JSON that ends in its own checksum, so that a flipped character cannot pass."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sigmax.bounds import Spent
from sigmax.errors import RequestError
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage

_MARK = ',"crc":"'
_OF_A_STAGE = tuple(field.name for field in fields(Stage))
_OF_A_RECORD = frozenset(
    "kind index label predicted radius outcome alpha seconds answered_by limited_by ledger stages".split()
)
_OPTIONAL = ("looks", "scores", "balls", "error")
_ROLES = {str(role): role for role in Role}
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_OR_NONE = ("lower", "upper", "radius", "error")  # numbers of a stage that may be missing


@dataclass(frozen=True, slots=True)
class Record:
    """One certified input: which, its true class (None where it is not known), its certificate and the seconds."""

    index: int
    label: int | None
    certificate: Certificate
    seconds: float

    @property
    def correct(self) -> bool | None:
        """Whether the certified class is the true one (an abstention is not); None where that is not known."""
        return None if self.label is None else self.certificate.predicted == self.label

    @property
    def counts(self) -> bool:
        """Whether its radius counts: the true class is certified, or any class where the true one is not known."""
        return self.certificate.predicted is not None and self.correct is not False

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
            "answered_by": c.answered_by,
            "limited_by": c.limited_by,
            "ledger": [list(entry) for entry in c.ledger],
            "stages": [_plain(stage) for stage in c.stages],
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Record":
        """The record a line holds; every field is checked, because a line may come from anywhere."""
        _require(line.get("kind") == "input", "kind", "'input'", line.get("kind"))
        if line.keys() != _OF_A_RECORD:
            raise RequestError(f"the line is not a whole record: {_other_keys(line)}")
        _require(type(line["index"]) is int, "index", "a whole number", line["index"])
        _require(type(line["label"]) in (int, type(None)), "label", "a whole number, or null", line["label"])
        seconds = line["seconds"]
        _require(_is_float(seconds) and 0 <= seconds < 1e9, "seconds", "a number from 0 to a lifetime's", seconds)
        return cls(line["index"], line["label"], _certificate(line), seconds)


def _certificate(line: Mapping[str, Any]) -> Certificate:
    for name in ("answered_by", "limited_by"):
        _require(type(line[name]) in (str, type(None)), name, "a part or a stage", line[name])
    _require(type(line["predicted"]) in (int, type(None)), "predicted", "a class", line["predicted"])
    _require(_is_float(line["radius"]), "radius", "a finite number", line["radius"])
    try:
        return Certificate(
            predicted=line["predicted"],
            radius=line["radius"],
            outcome=Outcome[line["outcome"].upper()],
            alpha=line["alpha"],
            stages=tuple(_stage(stage) for stage in line["stages"]),
            ledger=tuple(_spent(*entry) for entry in line["ledger"]),
            answered_by=line["answered_by"],
            limited_by=line["limited_by"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"the line is not a whole record: {error!r}") from error


def _other_keys(line: Mapping[str, Any]) -> str:
    missing, surplus = sorted(_OF_A_RECORD - line.keys()), sorted(line.keys() - _OF_A_RECORD)
    return f"it lacks {', '.join(missing)}" if missing else f"it has {', '.join(surplus)[:80]} as well"


def _plain(stage: Stage) -> dict[str, Any]:
    """A stage as plain data; what only some stages have is left out of the others."""
    every = ((name, getattr(stage, name)) for name in _OF_A_STAGE)
    return {name: value for name, value in every if value or name not in _OPTIONAL}


def _stage(data: Mapping[str, Any]) -> Stage:
    """A stage of a record; each field must be of its kind, since equal numbers of different kinds are equal."""
    looks = tuple(_counts(look) for look in data.get("looks", ()))
    balls = tuple(_ball(ball) for ball in data.get("balls", ()))
    scores = tuple(data.get("scores", ()))
    _require(all(map(_is_float, scores)), "a stage's scores", "finite numbers", scores)
    role = _ROLES.get(data["role"]) if type(data["role"]) is str else None
    _require(role is not None, "a stage's role", f"one of {', '.join(_ROLES)}", data["role"])
    counts = _counts(data["counts"])
    stage = Stage(**{**data, "role": role, "counts": counts, "looks": looks, "balls": balls, "scores": scores})
    _require(type(stage.part) is str, "a stage's part", "text", stage.part)
    _require(_is_float(stage.sigma), "a stage's sigma", "a finite number", stage.sigma)
    _require(type(stage.n) is int, "a stage's n", "a whole number", stage.n)
    _require(_is_float(stage.alpha), "a stage's alpha", "a finite number", stage.alpha)
    for name, value in zip(_OR_NONE, (stage.lower, stage.upper, stage.radius, stage.error), strict=True):
        if value is not None and not _is_float(value):
            _require(False, f"a stage's {name}", "a finite number", value)
    return stage


def _counts(counts: Any) -> tuple[int, ...]:
    found = tuple(counts)
    if found and (set(map(type, found)) != {int} or min(found) < 0):
        wrong = next(count for count in found if type(count) is not int or count < 0)
        _require(False, "a count", "a whole number of at least 0", wrong)
    return found


def _ball(ball: Any) -> tuple[int, float]:
    known = len(ball) == 2 and type(ball[0]) is int and ball[0] >= 0 and _is_float(ball[1]) and ball[1] >= 0
    _require(known, "a ball", "its place in the memory and a distance", ball)
    return tuple(ball)


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
    body = _ENCODER.encode(data)
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
        data = _DECODER.decode(body)
        if "\\u" in body:  # half a character can be written so, and could not be printed
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the line is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RequestError("the line is not a JSON object")
    return data


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise RequestError("a name stands twice in one table of the line; the file is damaged")
    return table


def _no_number(name: str) -> None:
    raise RequestError(f"the line holds {name}, which is no number; the file is damaged")


_DECODER = json.JSONDecoder(object_pairs_hook=_table, parse_constant=_no_number)


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
