"""Options as pydantic models and dataclasses: a wrong value is refused with its key, what was expected and what came.

@options
class Blur:
    width: Annotated[Count, about("pixels")] = 3

Blur(width=0)                    # RequestError: width: expected a number of at least 1, got 0
build(Blur, {"widht": 2})        # RequestError: the top level has no 'widht'; it takes width; did you mean width?
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any, TypeVar, dataclass_transform, overload

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from sigmax.config.fields import fields_of, models_in
from sigmax.errors import RequestError

T = TypeVar("T")

# "3" and true are not numbers, and numbers are finite.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
SHOWN = 5  # errors named at once
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
MISSING = ("missing", "missing_argument")

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # torch's
Uint64 = Annotated[int, Field(ge=0, lt=2**64)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]  # of a whole that is never all of it
Probability = Annotated[float, Field(gt=0, lt=1)]
Numbers = Annotated[tuple[float, ...], Field(strict=False)]  # a list will do

_EXPECTED = {  # by pydantic's name of the error; what stands in braces is its context
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dataclass_type": "a table",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "is_instance_of": "a {class}",
    "none_required": "nothing",
}


def build(model: type[T], given: Mapping[str, Any], where: str = "") -> T:
    """The model that a mapping describes, checked as a JSON file's; `where` begins the path of every key."""
    try:
        text = json.dumps(given, default=_plain)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{where or 'the options'} cannot be read: {error}") from error
    with checked(model, given, where):
        return TypeAdapter(model).validate_json(text, strict=True)


class Options(BaseModel):
    """A table of options: frozen, every key known, every value of its kind; a wrong one raises `RequestError`."""

    model_config = ConfigDict(**STRICT, frozen=True)

    def __init__(self, **given: Any) -> None:
        with checked(type(self), given, name=type(self).__name__):
            super().__init__(**given)

    # Validation of a table around this one reports its own errors, with the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


@overload
def options(kind: type[T], /) -> type[T]: ...
@overload
def options(*, frozen: bool = True, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def options(kind: type[T] | None = None, /, *, frozen: bool = True, kw_only: bool = False) -> Any:
    """A dataclass whose fields are checked by pydantic, strictly; what is wrong is a RequestError."""

    def decorated(kind: type[T]) -> type[T]:
        made: Any = dataclass(kind, frozen=frozen, kw_only=kw_only, config=STRICT)
        init = made.__init__

        @wraps(init)
        def checking(self: Any, /, *args: Any, **kwargs: Any) -> None:
            with checked(made, {**dict(zip(fields_of(made), args, strict=False)), **kwargs}, name=made.__name__):
                init(self, *args, **kwargs)

        made.__init__ = checking
        checks: type[T] = made
        return checks

    return decorated if kind is None else decorated(kind)


def about(description: str) -> Any:
    """What an option is, for help texts and documentation: `Annotated[Count, about("passes over the data")]`."""
    return Field(description=description)


@contextmanager
def checked(model: type, given: Mapping[str, Any], where: str = "", *, name: str = "the top level") -> Iterator[None]:
    """Turn what pydantic finds wrong with `given` into a RequestError; `where` is the table that the keys are in."""
    try:
        yield
    except ValidationError as error:
        errors = _joined(error.errors(include_url=False), model, given)
        said = [_sentence(one, model, given, where, name) for one in errors]
        more = [f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
        raise RequestError("; ".join([*said[:SHOWN], *more])) from error


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Errors that are raised within begin with the place they are about."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from error


def unknown_key(key: str, model: type, where: str = "", *, name: str = "the top level") -> str:
    """What to say of a key that a model does not have, with the one that was probably meant."""
    known = list(fields_of(model))
    return (
        f"{f'[{where}]' if where else name} has no {key!r}; it takes {', '.join(sorted(known)) or 'nothing'}"
        f"{_meant(key, known, model, where)}"
    )


def _joined(errors: Iterable[ErrorDetails], model: type, given: Any) -> list[ErrorDetails]:
    """The errors, those of the kinds of one union of plain values as one; what is wrong in a list is not the list."""
    found: dict[Any, ErrorDetails] = {}
    placed = [(tuple(_path(error["loc"], model, given)[0]), error) for error in errors]
    for path, error in placed:
        plain = error["type"] in _EXPECTED
        below = any(other != path and other[: len(path)] == path for other, _ in placed)
        if plain and below and isinstance(error["input"], list):
            continue
        first = found.setdefault(path if plain else len(found), error)
        if first is not error:
            first["msg"] = f"{_expected(first)} or {_expected(error)}"
            first["type"] = "joined"
    return list(found.values())


def _sentence(error: ErrorDetails, model: type, given: Any, where: str, name: str) -> str:
    path, holder = _path(error["loc"], model, given)
    key, kind, context = _dotted(where, *path), error["type"], error.get("ctx", {})
    if kind in UNKNOWN:
        return unknown_key(path[-1], holder, _dotted(where, *path[:-1]), name=name)
    if kind in MISSING:
        field = fields_of(holder).get(path[-1])
        return f"{key} is missing" + (f": {field.description}" if field and field.description else "")
    if kind == "value_error":
        return f"{key}: {context['error']}" if key else str(context["error"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = str(context["discriminator"]).strip("'")
        if kind == "union_tag_not_found":
            return f"{key}.{tag} is missing"
        return f"{key}.{tag}: expected one of {context['expected_tags']}, got {context['tag']!r}"
    return f"{key or name}: expected {_expected(error)}, got {error['input']!r}"


def _expected(error: ErrorDetails) -> str:
    text = _EXPECTED.get(error["type"])
    return text.format(**error.get("ctx", {})) if text else error["msg"].removeprefix("Input should be ")


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _path(loc: Iterable[int | str], model: type, given: Any) -> tuple[list[str], type]:
    """The keys that lead to an error, as the file has them, and the model that holds the last one."""
    path: list[str] = []
    parts, value, known = list(loc), given, list(fields_of(model))
    if parts and isinstance(parts[0], int) and parts[0] < len(known):  # an argument given by its position
        parts[0] = known[parts[0]]
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if isinstance(value, Mapping) and part not in value and not (last and part in fields_of(model)):
            continue  # pydantic's own name of a member of a union
        if isinstance(value, list | tuple) and isinstance(part, str):
            continue  # likewise, where the member is a list
        if not isinstance(value, Mapping | list | tuple) and path:
            break  # likewise, of a union of plain values
        field = fields_of(model).get(str(part))
        path.append(str(part))
        value = _at(value, part)
        if not last and field is not None:
            model = _holder(models_in(field.annotation), parts[place + 1 :], model)
    return path, model


def _holder(models: list[type], rest: list[int | str], otherwise: type) -> type:
    """Of the models that a field may hold, the one that an error below it is about."""
    for model in models:
        tags = [getattr(field.annotation, "__args__", ()) for field in fields_of(model).values()]
        if len(models) == 1 or any((part,) in tags for part in rest):
            return model
    return models[0] if models else otherwise


def _at(value: Any, part: int | str) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
        return value[part]
    return getattr(value, str(part), None)


def _meant(key: str, here: Iterable[str], model: type, table: str) -> str:
    """'; did you mean ...?' for a key of a table below, or a misspelt one; nothing for any other."""
    below = {
        known: f"[{_dotted(table, name)}] {known}"
        for name, field in fields_of(model).items()
        for inner in models_in(field.annotation)
        for known in fields_of(inner)
    }
    if key not in below:
        near = get_close_matches(key, [*here, *below], n=1)
        key = near[0] if near else ""
    return f"; did you mean {below.get(key, key)}?" if key else ""


def _plain(value: object) -> Any:
    """What JSON cannot hold: models within the mapping, paths and numpy's numbers."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel) or hasattr(value, "__dataclass_fields__"):
        return TypeAdapter(type(value)).dump_python(value, mode="json")
    return value.item() if hasattr(value, "item") else str(value)
