"""What a model's keys are: tables for the documentation, a JSON schema for editors that complete and check TOML."""

import json
from collections.abc import Container, Iterator, Mapping
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sigmax.config.fields import fields_of, is_model, members

NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", Any: "any"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def json_schema(model: type) -> dict[str, Any]:
    """The schema of the files that the model is built from."""
    return {"$schema": DIALECT, **TypeAdapter(model).json_schema()}


def markdown(model: type, *, nested: bool = True, without: Container[str] = (), optional: Container[str] = ()) -> str:
    """A Markdown table of the model's keys; with `nested`, keys of tables below have dotted paths.

    without, optional: keys that are left out, and those that the model requires but whoever reads the keys fills in.
    """
    head = ["| key | type | default | |", "|---|---|---|---|"]
    found = ((row[0].strip("`"), row) for row in _rows(model, nested))
    rows = [(*row[:2], "" if key in optional else row[2], row[3]) for key, row in found if key not in without]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _rows(model: type, nested: bool, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, field in fields_of(model).items():
        kinds = members(field.annotation)
        if nested and is_model(kinds[0]):
            yield from _rows(kinds[0], nested, f"{prefix}{name}.")
            continue
        typed = " or ".join(dict.fromkeys(_type(kind) for kind in kinds)) + _range(field)
        said = (field.description or "").replace("|", "\\|")
        yield f"`{prefix}{name}`", typed.replace("|", "\\|"), _default(field), said


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{option}`" for option in inner if option != "")
    if origin is tuple:
        return "list of " + " or ".join(filter(None, map(_type, members(inner[0]))))
    if is_model(kind) or origin is not None or kind in (dict, Mapping):
        return "table"
    return NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def _range(field: FieldInfo) -> str:
    found = []
    for bound, (name, sign) in product(field.metadata, SIGNS.items()):
        value = getattr(bound, name, None)
        if value is not None:  # bounds of integer types as powers of two
            found.append(f"{sign} 2^{int(value).bit_length() - 1}" if value >= 2**32 else f"{sign} {value:g}")
    return f" {', '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, NoneType) or value in ((), {}) or is_model(type(value)):
        return ""
    return f"`{json.dumps(value, default=list if isinstance(value, tuple) else str)}`"
