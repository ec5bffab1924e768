"""Writing TOML (Python only reads it): tables, lists of tables, strings, numbers, truth values, lists of these."""

import json
from collections.abc import Mapping
from typing import Any

from sigmax.errors import RequestError


def dumps(data: Mapping[str, Any]) -> str:
    """TOML text that `tomllib.loads` reads back as `data`; None values are left out."""
    return "\n".join(_table(data, ())).strip() + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = _body(data, path)
    if path and (not data or any(v is not None and not _holds_tables(v) for v in data.values())):
        lines.insert(0, f"[{_name(path)}]")  # a table that only holds tables needs no heading
    return lines


def _body(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(k)} = {_value(v)}" for k, v in data.items() if v is not None and not _holds_tables(v)]
    for key, value in data.items():
        inner = (*path, key)
        if isinstance(value, Mapping):
            lines += ["", *_table(value, inner)]
        elif _holds_tables(value):
            for entry in value:
                lines += ["", f"[[{_name(inner)}]]", *_body(entry, inner)]
    return lines


def _holds_tables(value: Any) -> bool:
    """A table, or a list of nothing but tables."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(entry, Mapping) for entry in value)
    return isinstance(value, Mapping)


def _name(path: tuple[str, ...]) -> str:
    return ".".join(map(_key, path))


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float.__repr__(value)  # every digit, also of numpy's floats
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise RequestError(f"cannot write a {type(value).__name__} to TOML: {value!r}")


def _text(text: str) -> str:
    # JSON escapes what TOML wants escaped, except the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
