"""Sigma as the path of a log states it: `noise_0.5/test/sigma_0.25`, `sigma=0.5.tsv`, `0.12/log`."""

import re
from collections.abc import Iterator
from pathlib import Path

_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)(?!\.?\d)"
# What votes were cast with is called sigma; "noise" beside it is what the network was trained with.
_SPELLINGS = (
    re.compile(rf"(?<![a-z])(?:sigma|sig)[ _=:-]*{_NUMBER}", re.IGNORECASE),
    re.compile(rf"(?<![a-z])(?:noise(?:_sd)?|std|sd)[ _=:-]*{_NUMBER}", re.IGNORECASE),
    re.compile(r"(?<![a-z0-9.])(\d?\.\d+)(?!\.?\d)", re.IGNORECASE),
)


def sigma_in(path: Path) -> float | None:
    """The noise that the path names, the innermost folder first; None where it names none."""
    return next(_sigmas(path), None)


def _sigmas(path: Path) -> Iterator[float]:
    for spelling in _SPELLINGS:
        for part in reversed(path.parts):
            for found in reversed(spelling.findall(part)):
                # 025 is 0.25 with its point left out of a file's name
                value = float(f"0.{found[1:]}" if re.fullmatch(r"0\d+", found) else found)
                if value > 0:
                    yield value
