"""A report as a folder: tables, plots, and a page that puts them together."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from sigmax.files import written_whole
from sigmax.report.accuracy import Floats
from sigmax.report.comparison import compare
from sigmax.report.page import markdown_table, page
from sigmax.report.plot import draw, new_figure
from sigmax.report.runs import Source, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(
    runs: Source | Iterable[Source],
    folder: str | Path,
    *,
    radii: Sequence[float] | Floats | None = None,
    strict: bool = False,
) -> list[Path]:
    """Write report.md, table.md, table.csv, curve.png and curve.pdf into `folder`, made if need be; their paths.

    All is worked out before the first file is written, and each file appears whole: a report that fails leaves
    an older one as it was. See `compare` for `radii` and `strict`.
    """
    by_name = named(runs)
    frame = compare(by_name.values(), radii, strict=strict)
    figure = new_figure()
    draw(by_name.values(), figure.add_subplot())
    contents = {
        "report.md": page(by_name, frame, strict=strict, plot="curve.png").encode(),
        "table.md": markdown_table(frame, strict=strict).encode(),
        "table.csv": frame.to_csv(index=False).encode(),
        "curve.png": _picture(figure, "png"),
        "curve.pdf": _picture(figure, "pdf"),
    }
    return [_put(Path(folder) / name, content) for name, content in contents.items()]


def _picture(figure: "Figure", kind: str) -> bytes:
    buffer = BytesIO()
    # No date and no version inside: the same runs give the same bytes.
    quiet = {"pdf": {"CreationDate": None}, "png": {"Software": None}}[kind]
    figure.savefig(buffer, format=kind, dpi=160, metadata=quiet)
    return buffer.getvalue()


def _put(path: Path, content: bytes) -> Path:
    with written_whole(path) as draft:
        draft.write_bytes(content)
    return path
