"""TOML files: what they hold, and where the paths in them begin, which is the file's own folder."""

import tomllib
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from sigmax.config.fields import fields_of, models_in
from sigmax.errors import RequestError


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """What a TOML file holds; `what`: how an error calls the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"the {what} file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path} is not TOML: {error}") from error


@dataclass(frozen=True)
class Place:
    """Marks a field that holds a path, or several: `Annotated[str, Place()]`.

    prefixes: paths stand behind one, as in cifar10:PATH, and text without any is a name; names: text that begins so is
    a name, as in zoo:NAME; gaps: empty text is no path.
    """

    prefixes: bool = False
    names: tuple[str, ...] = ()
    gaps: bool = False

    def resolved(self, value: Any, folder: Path, known: Container[str]) -> Any:
        """The value with its paths from `folder` on; what is of another kind is left to be refused."""
        if isinstance(value, list):
            return [self.resolved(entry, folder, known) for entry in value]
        if not isinstance(value, str) or value in known or value.startswith(self.names) or (self.gaps and not value):
            return value
        prefix, colon, path = value.partition(":") if self.prefixes else ("", "", value)
        if self.prefixes and not path:
            return value
        if "\0" in path:
            raise RequestError(f"no path holds a null character; got {path!r}")
        try:
            return f"{prefix}{colon}{folder / Path(path).expanduser()}"
        except RuntimeError as error:
            raise RequestError(f"{path} cannot be found: {error}") from error


def placed(model: Any, given: Any, folder: Path, known: Container[str] = ()) -> Any:
    """The mapping that `model` is built from, with every path in it from `folder` on; `known` names stay."""
    if not isinstance(given, Mapping):
        return given
    result = dict(given)
    for name, field in fields_of(model).items():
        if name not in given:
            continue
        mark = next((mark for mark in field.metadata if isinstance(mark, Place)), None)
        tables = models_in(field.annotation)
        if mark is not None and isinstance(given[name], Mapping):
            result[name] = {key: mark.resolved(path, folder, ()) for key, path in given[name].items()}
        elif mark is not None:
            result[name] = mark.resolved(given[name], folder, known)
        elif len(tables) == 1:
            result[name] = placed(tables[0], given[name], folder, known)
        elif tables and isinstance(given[name], Mapping):  # a table of tables of several kinds
            result[name] = {key: placed(_kind(tables, each), each, folder, known) for key, each in given[name].items()}
    return result


def _kind(models: list[type], given: Any) -> type:
    """The model whose `kind` a table names; any of them where it names none, which is refused later."""
    kinds = {get_args(fields_of(model)["kind"].annotation)[0]: model for model in models}
    kind = given.get("kind") if isinstance(given, Mapping) else None
    return kinds.get(kind, models[0]) if isinstance(kind, str) else models[0]
