"""Writing TOML (Python only reads it): tables of strings, numbers, truth values and lists of these."""

import json
from collections.abc import Mapping
from typing import Any

from sigmax.errors import RequestError


def dumps(data: Mapping[str, Any]) -> str:
    """TOML text that `tomllib.loads` reads back as `data`; None values are left out."""
    return "\n".join(_table(data, ())).strip() + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(k)} = {_value(v)}" for k, v in data.items() if v is not None and not isinstance(v, Mapping)]
    if path and (lines or not data):  # a table that only holds tables needs no heading
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    for key, value in data.items():
        if isinstance(value, Mapping):
            lines += ["", *_table(value, (*path, key))]
    return lines


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
