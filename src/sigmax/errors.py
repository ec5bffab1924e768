"""The two ways a job can fail, kept apart because the reader must do different things about them."""

from importlib import import_module
from typing import Any


class RequestError(ValueError):
    """The request was wrong: says what was expected, what came, and what to do. Exit code 2."""


class RunError(RuntimeError):
    """The request was fine but the run failed: says what is safe and how to go on. Exit code 1."""


def resizing(side: int | str = "N") -> str:
    """How pictures are resized: some verbs have an option, some a key, and Python an argument."""
    return f"--image-size {side} (--set image_size={side} where a verb has no such option; size={side} in Python)"


def needs(package: str, *, extra: str, why: str) -> Any:
    """A package that only some uses need, or an error that says how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise RequestError(f"{name} is needed {why}: pip install 'sigmax[{extra}]' ({error})") from error
