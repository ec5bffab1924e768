"""Is this the same request, and if not what differs? Everything that resumes asks here.

A request is a mapping of plain values: what decides the content of a file, and nothing else. A key that one of the
two requests does not have differs from every value but None.

What was measured, such as a network's outputs, is a table of `outputs` and `within`. Two of them are the same if no
output lies further apart than `within` times the largest of them: the last bits are a machine's own.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sigmax.errors import RequestError
from sigmax.numbers import is_number

ADVICE = "Delete it, or choose another output"
WIDEST = 0.05  # of any tolerance
_NOTHING = object()  # where a request does not have a key


def differences(
    there: Mapping[str, Any], here: Mapping[str, Any], *, hints: Mapping[str, str] | None = None
) -> list[str]:
    """What differs between a request that was made before, `there`, and one made now; empty if they are the same.

    `hints`: what a difference means, by key; the hint of a table holds for all keys below it that have none.
    """
    found = []
    for key in differing(there, here):
        old, new = (dict(_flat(request)).get(key, _NOTHING) for request in (there, here))
        hint = _hint(key, hints or {})
        found.append(f"{key} {_contrast(old, new)}" + (f" ({hint})" if hint else ""))
    return found


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The keys that differ, as dotted paths."""
    old, new = dict(_flat(there)), dict(_flat(here))
    return sorted(key for key in old.keys() | new.keys() if not _same(old.get(key), new.get(key)))


def refuse_other(
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    what: str,
    advice: str = ADVICE,
    *,
    hints: Mapping[str, str] | None = None,
) -> None:
    """Raise unless the two requests are the same: `what` belongs to another one, what differs, and what to do."""
    found = differences(there, here, hints=hints)
    if found:
        raise RequestError(f"{what}: {'; '.join(found)}. {advice}")


def is_measured(value: object) -> bool:
    """Whether this is a table of measured numbers, to be compared with a tolerance."""
    if not isinstance(value, Mapping) or value.keys() != {"outputs", "within"}:
        return False
    outputs = value["outputs"]
    return _is_tolerance(value["within"]) and isinstance(outputs, list | tuple) and all(map(is_number, outputs))


def _is_tolerance(value: object) -> bool:
    """A file says how close is the same, so it may not say too much."""
    return is_number(value) and 0 <= float(value) <= WIDEST  # type: ignore[arg-type]  # a number, as was seen


def _same(old: Any, new: Any) -> bool:
    if is_measured(old) and is_measured(new):
        return _apart(old, new) <= float(max(old["within"], new["within"]))
    return bool(old == new)


def _apart(old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
    """The largest difference, as a part of the largest number."""
    pairs = list(zip(old["outputs"], new["outputs"], strict=False))
    if len(old["outputs"]) != len(new["outputs"]):
        return math.inf
    largest = max((abs(number) for pair in pairs for number in pair), default=0.0)
    return max((abs(a - b) for a, b in pairs), default=0.0) / largest if largest else 0.0


def _contrast(old: Any, new: Any) -> str:
    if is_measured(old) and is_measured(new):
        return f"differs by {_apart(old, new):.2g} of its largest output"
    shown = ("not given" if v is _NOTHING else "measured" if is_measured(v) else repr(v) for v in (old, new))
    return "is {} there and {} here".format(*shown)


def _flat(request: Mapping[Any, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
    """The values by dotted path; lists of tables are numbered, and tuples are lists, as in a file."""
    for key, value in request.items():
        if is_measured(value):
            yield f"{inside}{key}", value
        elif isinstance(value, Mapping) and value:
            yield from _flat(value, f"{inside}{key}.")
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            yield from _flat(dict(enumerate(value)), f"{inside}{key}.")
        else:
            yield f"{inside}{key}", _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value or None if isinstance(value, Mapping) else value  # an empty table says nothing


def _hint(key: str, hints: Mapping[str, str]) -> str:
    while key and key not in hints:
        key = key.rpartition(".")[0]
    return hints.get(key, "")
