"""A table of a TOML file, read strictly: every key known, every value of the kind that its field asks for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sigmax.certify.checks import is_number, is_whole
from sigmax.errors import RequestError

Table = Mapping[str, Any]

KINDS: dict[object, tuple[str, Callable[[object], bool]]] = {
    str: ("text", lambda value: isinstance(value, str) and "\0" not in value),  # no path holds a null
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", is_whole),
    float: ("a finite number", is_number),
    Mapping: ("a table", lambda value: isinstance(value, Mapping)),
}


def entries(
    told: object, hints: Mapping[str, Any], where: str, deeper: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Any]:
    """The entries of a table, each known by name in `hints` and of the type given there; lists become tuples.

    `deeper`: the keys of the tables below this one, for an error to say where a key belongs.
    """
    name = f"[{where}]" if where else "the file"
    if not isinstance(told, Mapping):
        raise RequestError(f"{name} must be a table; got {told!r}")
    unknown = sorted(set(told) - set(hints))
    if unknown:
        raise RequestError(
            f"{name} has no {', '.join(unknown)}; it takes {', '.join(sorted(hints))}"
            + _meant(unknown[0], hints, {f"{where}.{below}": keys for below, keys in (deeper or {}).items()})
        )
    return {key: _typed(value, hints[key], f"{where}.{key}" if where else key) for key, value in told.items()}


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Errors that are raised within begin with the place they are about."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from error


def _meant(key: str, here: Iterable[str], deeper: Mapping[str, Iterable[str]]) -> str:
    """'; did you mean ...?' for a key of a table below, or a misspelt one; nothing for any other."""
    below = {known: f"[{table}] {known}" for table, keys in deeper.items() for known in keys}
    if key not in below:
        near = get_close_matches(key, [*here, *below], n=1)
        key = near[0] if near else ""
    return f"; did you mean {below.get(key, key)}?" if key else ""


def _typed(value: object, hint: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in inner:
            raise RequestError(f"{where} must be one of {', '.join(inner)}; got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RequestError(f"{where} must be a list; got {value!r}")
        return tuple(_typed(entry, inner[0], f"{where}, entry {i + 1},") for i, entry in enumerate(value))
    if origin in (UnionType, Union):  # with None, which TOML has no word for: leave the key out
        return _typed(value, inner[0], where)
    expected, fits = KINDS[origin or hint]
    if not fits(value):
        raise RequestError(f"{where} must be {expected}; got {value!r}")
    return float(value) if hint is float else value  # type: ignore[arg-type]  # seen to be a number
