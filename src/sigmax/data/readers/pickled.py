"""Read a pickle of plain containers and 8-bit arrays without running what the pickle asks for.

A pickle is a program that may call any importable function. Here every name it can mention is answered by a
stand-in of our own that only collects bytes: not even numpy's constructors are handed out, since they trust
their arguments more than a stranger's file deserves. Any other name ends the reading.

The stand-ins are classes with `__setstate__`, a string and a method of `str`, so that a pickle cannot use its
BUILD instruction to set attributes on them either.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError


def read_pickle(path: Path) -> Any:
    """What the pickle at `path` holds: containers, numbers, bytes, text, and uint8 arrays as dict values.

    Python 2 strings come as bytes. Anything else the file asks for is refused, and nothing of it was run.
    """
    try:
        raw = path.read_bytes()
        _refuse_far_memory(raw)
        content = _Reader(io.BytesIO(raw), encoding="bytes").load()
    except _RefusedError as refusal:
        raise RequestError(
            f"{path} is refused: {refusal}, which a data file never needs; nothing of it was run. "
            "Take the file from a source you trust, or use the binary version of the data set"
        ) from None
    except Exception as error:  # damaged bytes make an unpickler raise nearly anything
        raise RequestError(f"{path} is not a whole pickle ({error}); download it again") from error
    if isinstance(content, dict):
        return {key: value.values if isinstance(value, _Array) else value for key, value in content.items()}
    return content


def _refuse_far_memory(raw: bytes) -> None:
    """Raise where a value is to be remembered at a place far beyond the file's size: all places up to it are made."""
    for operation, argument, _ in pickletools.genops(raw):
        if operation.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= (argument or 0) <= len(raw):
            raise _RefusedError(f"it asks for a memory of {argument} places")


class _RefusedError(Exception):
    """The pickle wants something outside the short list."""


class _Uint8:
    """In place of numpy.dtype: the one type admitted."""

    def __init__(self, code: object, *_flags: object) -> None:
        if code not in ("u1", b"u1"):
            raise _RefusedError(f"it asks for an array of type {code!r}")

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment mean nothing to single bytes."""


class _Array:
    """In place of the array that numpy would build empty and then fill."""

    values: NDArray[np.uint8]

    def __init__(self, *_recipe: object) -> None:
        self.values = np.zeros(0, np.uint8)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        _version, shape, kind, fortran, raw = state
        self._fill(raw, kind, shape, "F" if fortran else "C")

    def _fill(self, raw: Any, kind: object, shape: Any, order: Any) -> None:
        if not isinstance(kind, _Uint8):
            raise _RefusedError(f"it asks for an array of type {kind!r}")
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order=order)


class _FilledArray(_Array):
    """In place of the array that numpy builds from a buffer in one step (pickle protocol 5)."""

    def __init__(self, raw: object, kind: object, shape: object, order: object) -> None:
        self._fill(raw, kind, shape, order)


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument of _reconstruct, never called
    ("numpy", "dtype"): _Uint8,
    ("numpy.core.multiarray", "_reconstruct"): _Array,  # numpy 1
    ("numpy.core.numeric", "_frombuffer"): _FilledArray,
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # numpy 2
    ("numpy._core.numeric", "_frombuffer"): _FilledArray,
    ("_codecs", "encode"): str.encode,  # how Python 3 writes bytes for Python 2
}


class _Reader(pickle.Unpickler):
    """An unpickler whose whole world is `_STAND_INS`."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"it asks for {module}.{name}")
        return _STAND_INS[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise _RefusedError(f"it asks for an object outside the file ({pid!r})")
