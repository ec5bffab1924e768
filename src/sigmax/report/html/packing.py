"""What a page is built from: templates, scripts and style sheet, the plotting library, and data packed small.

Radii and bounds travel as whole millionths, rounded to the side that claims less; the page cuts more digits off, also
downward, so what it prints is what `sigmax.records.rounding.down` would. Settings such as sigma and radii of other
tools' logs travel as they are.
"""

import gzip
import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import needs

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

MILLION = 1_000_000


def packed(data: object) -> str:
    """Plain data as base64 of gzipped JSON: no character of it can end the script element it stands in."""
    return compressed(json.dumps(data, separators=(",", ":"), allow_nan=False))


def compressed(text: str) -> str:
    """Text gzipped, as base64; the same text gives the same letters, whatever the clock says."""
    return b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode("ascii")


def column(values: Iterable[Any]) -> Any:
    """A list of values, or the value itself where all of them are alike."""
    listed = list(values)
    return listed[0] if listed and all(value == listed[0] for value in listed) else listed


def millionths(value: float | None) -> int | None:
    """The number in millionths, exactly rounded down; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * MILLION // denominator


def as_given(value: float) -> int:
    """Another tool's number in millionths, to the nearest: 0.941 stays 0.941, though the float lies below it."""
    return round(float(value) * MILLION)


def millionths_up(value: float | None) -> int | None:
    """The same rounded up, for a number that claims less the larger it is."""
    down = millionths(None if value is None else -value)
    return None if down is None else -down


def hundredths(k: NDArray[np.int64], n: int) -> list[int]:
    """The shares k of n in hundredths of a percent, rounded down without a float between."""
    return [10_000 * int(part) // n for part in k]


def thinned(steps: int, most: int) -> NDArray[np.int64]:
    """Which of many steps to keep, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, steps - 1, min(steps, most)).round().astype(np.int64))


def floats(values: Sequence[float] | NDArray[np.float64], *, given: bool = False) -> list[int | None]:
    """Numbers in millionths, rounded down; or as they are where they were `given` by another tool."""
    return [as_given(value) if given and math.isfinite(value) else millionths(value) for value in values]


def parameter(value: float) -> float | None:
    """A setting such as sigma, as it is to six digits; None where there is none."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


class Library(NamedTuple):
    """A script as a page carries it, and what the page's policy knows it by."""

    packed: str
    digest: str


@cache
def asset(name: str) -> str:
    """A script or style sheet of the page, as it is."""
    return files("sigmax.report.html").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def template(name: str) -> "Template":
    """A template of the page: whatever is put into it is text, unless the template says that it is safe."""
    jinja2 = needs("jinja2", extra="plot", why="for the HTML page")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sigmax.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    found: Template = environment.get_template(name)
    return found


def _prose(text: str) -> "Markup":
    """A sentence as HTML: what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def plotly() -> Library:
    """plotly.js, whole, as the Python package of that name brings it; nothing is fetched."""
    script = str(needs("plotly.offline", extra="plot", why="for the HTML page").get_plotlyjs())
    return Library(compressed(script), digest(script))


def digest(script: str) -> str:
    """A script's name in a Content-Security-Policy."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode('ascii')}"
