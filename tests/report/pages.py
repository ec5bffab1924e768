"""Reading back what a page carries."""

import gzip
import io
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from sigmax.records.run import Run
from sigmax.report.compare.comparison import table
from sigmax.report.compare.diagnosis import routing_analysis
from sigmax.report.html.document import document
from sigmax.report.markdown import page as markdown
from sigmax.report.metrics.accuracy import grid
from sigmax.report.runs import named


def page_of(runs: Run | Iterable[Run], **options: Any) -> str:
    """The page alone, without the files that stand beside it in a report."""
    by_name = named(runs)
    found = routing_analysis(by_name)
    frame = table(by_name, found, grid(by_name.values(), None))
    return document(by_name, found, frame, **options)


def markdown_of(runs: Run | Iterable[Run], radii: Sequence[float] | None = None) -> str:
    """report.md alone."""
    by_name = named(runs)
    found, asked = routing_analysis(by_name), grid(by_name.values(), radii)
    return markdown(by_name, found, table(by_name, found, asked), asked)


def content(page: str, name: str) -> str:
    (found,) = re.findall(rf'<script type="application/octet-stream" id="{name}">([^<]*)</script>', page)
    return found


def data(page: str, name: str) -> Any:
    return json.loads(gzip.decompress(b64decode(content(page, name))))


def at(column: Any, row: int) -> Any:
    return column[row] if isinstance(column, list) else column


def tile(page: str, pictures: Mapping[str, Any], index: int) -> np.ndarray:
    """The image of an input as it lies on its sheet."""
    place = pictures["index"].index(index)
    sheet, spot = divmod(place, pictures["perSheet"])
    row, column = divmod(spot, pictures["columns"])
    height, width = pictures["height"], pictures["width"]
    pixels = np.asarray(Image.open(io.BytesIO(b64decode(content(page, f"sheet-{sheet}")))).convert("RGB"))
    return pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]
