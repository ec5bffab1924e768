"""`--set KEY=VALUE`: options changed from outside, with a path of names as the key."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from sigmax.config.fields import fields_of, is_model, members
from sigmax.config.validation import build, unknown_key
from sigmax.errors import RequestError

T = TypeVar("T")


def with_changes(options: T, changes: Sequence[str]) -> T:
    """The options, a model or dataclass, with changes such as "training.epochs=30"."""
    given = {name: getattr(options, name) for name in fields_of(type(options))}
    return build(type(options), changed(given, changes, type(options))) if changes else options


def changed(given: Mapping[str, Any], changes: Sequence[str], model: type) -> dict[str, Any]:
    """The mapping that `model` is built from, with each KEY=VALUE in place; `KEY=` leaves the key out.

    Text is taken as it is, anything else as TOML has it; a list may do without brackets, as in sigmas=0.25,0.5.
    """
    result = dict(given)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise RequestError(f"a change is KEY=VALUE, such as training.epochs=30; got {change!r}")
        result = _put(result, key.strip().split("."), text.strip(), [model], "")
    return result


def _put(table: Any, path: Sequence[str], text: str, kinds: Sequence[Any], where: str) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        table = {name: getattr(table, name) for name in fields_of(type(table))}
    name, *below = path
    models = [kind for kind in kinds if is_model(kind)]
    if models:
        name = name.replace("-", "_")
    known = [model for model in models if name in fields_of(model)]
    if models and not known:
        raise RequestError(unknown_key(name, models[0], where))
    inner = [one for model in known for one in members(fields_of(model)[name].annotation)]
    inner += [one for kind in kinds if get_origin(kind) not in (None, tuple) for one in members(get_args(kind)[-1])]
    place = f"{where}.{name}" if where else name
    if below:
        if not any(is_model(one) or one is Any or issubclass(get_origin(one) or one, Mapping) for one in inner):
            raise RequestError(f"{place} is no table, so there is no {place}.{below[0]} to change")
        return {**table, name: _put(table.get(name) or {}, below, text, inner, place)}
    if not text:
        return {key: value for key, value in table.items() if key != name}
    return {**table, name: _value(text, inner)}


def _value(text: str, kinds: Sequence[Any]) -> Any:
    """The text as a value of one of the kinds; where it is none of them, validation says so."""
    named = {option for kind in kinds if get_origin(kind) is Literal for option in get_args(kind)}
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    quoted = text.startswith(('"', "'", "[") if lists else ('"', "'"))
    if text in named or (str in kinds and not quoted):
        return text
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if lists and not text.startswith(("[", "{")) and ("," in text or len(lists) == len(kinds)):
        return _toml(f"[{text}]", otherwise=[part.strip() for part in text.split(",")])
    return _toml(text, otherwise=text)


def _toml(text: str, *, otherwise: Any) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return otherwise
