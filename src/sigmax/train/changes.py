"""Numbers of a recipe changed from outside: KEY=VALUE, with a path of names as the key."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from sigmax.errors import RequestError

R = TypeVar("R")


def with_changes(recipe: R, changes: Sequence[str]) -> R:
    """The recipe, a dataclass of values, tables and dataclasses, with changes such as "training.epochs=30".

    A value is read as Python would read it, (1, 2) or 0.5 or None; what is none of these is text.
    """
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise RequestError(f"a change is KEY=VALUE, such as training.epochs=30; got {change!r}")
        try:
            value = ast.literal_eval(text.strip())
        except (SyntaxError, ValueError):
            value = text.strip()
        recipe = _changed(recipe, key.strip().split("."), value)
    return recipe


def _changed(part: Any, path: Sequence[str], value: Any) -> Any:
    name, *below = path
    if isinstance(part, Mapping):
        return {**part, name: _changed(part.get(name, {}), below, value) if below else value}
    known = [field.name for field in fields(part)] if is_dataclass(part) else []
    if name not in known:
        raise RequestError(f"there is no {name!r} to change in {type(part).__name__}; it has {', '.join(known)}")
    return replace(part, **{name: _changed(getattr(part, name), below, value) if below else value})
