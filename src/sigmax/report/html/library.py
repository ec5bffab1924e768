"""The files a page is made of: those that lie beside this one, and the plotting library."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from sigmax.errors import RequestError
from sigmax.report.html.packing import compressed


class Library(NamedTuple):
    """A script as a page carries it, and what the page's policy knows it by."""

    packed: str
    digest: str


@cache
def file(name: str) -> str:
    """A file of this package, as it is."""
    return files("sigmax.report.html").joinpath(name).read_text(encoding="utf-8")


@cache
def plotly() -> Library:
    """plotly.js, whole, as the Python package of that name brings it; nothing is fetched."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise RequestError("the HTML page needs plotly: pip install 'sigmax[plot]'") from error
    script = str(get_plotlyjs())
    return Library(compressed(script), digest(script))


def digest(script: str) -> str:
    """A script's name in a Content-Security-Policy."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode('ascii')}"
