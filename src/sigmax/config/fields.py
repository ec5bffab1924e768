"""The fields of a model or dataclass, whichever it is."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


def is_model(kind: object) -> bool:
    """Whether it is a table of options: a pydantic model or a dataclass."""
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def fields_of(model: type) -> Mapping[str, FieldInfo]:
    """The fields by name; none for what is no model."""
    return _fields_of(model)


@cache
def _fields_of(model: Any) -> Mapping[str, FieldInfo]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model.model_fields
    found: Mapping[str, FieldInfo] | None = getattr(model, "__pydantic_fields__", None)
    if found is not None:
        return found
    if not is_dataclass(model):
        return {}
    hints = get_type_hints(model, include_extras=True)
    return {f.name: _info(hints[f.name], f) for f in fields(model) if f.init}


def _info(hint: Any, field: Any) -> FieldInfo:
    if field.default_factory is not MISSING:
        return FieldInfo(annotation=hint, default_factory=field.default_factory)
    return FieldInfo(annotation=hint, default=PydanticUndefined if field.default is MISSING else field.default)


def members(annotation: Any) -> list[Any]:
    """The types that a value may have: those of a union, each without its metadata; None apart."""
    if get_origin(annotation) is Annotated:
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [one for arm in get_args(annotation) for one in members(arm) if one is not type(None)]
    return [annotation]


def models_in(annotation: Any) -> list[type]:
    """The models that a field holds: itself, or as entries of a list or table."""
    found: list[type] = []
    for one in members(annotation):
        if is_model(one):
            found.append(one)
        else:
            found += [model for inner in get_args(one) for model in models_in(inner)]
    return found
