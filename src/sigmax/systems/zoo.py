"""The systems that come with sigmax: `sx.load("zoo:digits-cascade")`, and every verb that takes a system.

Each is a folder like any other with a model card, README.md, and weights stored as bfloat16.
"""

from importlib.resources import files
from pathlib import Path

from sigmax.errors import RequestError

PREFIX = "zoo:"
HEAD = "system.toml"


def names() -> tuple[str, ...]:
    """The names of all systems of the zoo."""
    home = _home()
    return tuple(sorted(path.name for path in home.iterdir() if (path / HEAD).is_file())) if home.is_dir() else ()


def folder_of(name: str) -> Path:
    """Where the system of this name lies."""
    if name not in names():
        raise RequestError(f"the zoo has no system {name!r}; it has {', '.join(names()) or 'none'}")
    return _home() / name


def _home() -> Path:
    return Path(str(files("sigmax"))) / "zoo"
