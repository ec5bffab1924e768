"""A report as a folder: a page to explore, the same as Markdown, and tables and plots for use elsewhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from sigmax.data import Dataset
from sigmax.files import written_whole
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats
from sigmax.report.comparison import grid, table
from sigmax.report.html import document
from sigmax.report.markdown import comparison
from sigmax.report.page import page
from sigmax.report.plot import draw_all, new_figure
from sigmax.report.routing_plot import draw_study, wide
from sigmax.report.runs import Source, named
from sigmax.report.study import Study, study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "pdf")


def write(
    runs: Source | Iterable[Source],
    folder: str | Path,
    *,
    radii: Sequence[float] | Floats | None = None,
    strict: bool = False,
    images: Dataset | None = None,
) -> list[Path]:
    """Write report.html into `folder`, made if need be, and the same for use elsewhere; returns all paths.

    report.html is one self-contained page, to be opened from disk: overview, interactive curves, comparison and
    every single input, with its image where `images`, the data set that the runs certified, is given.
    Beside it lie report.md, table.md, table.csv, curve.png and curve.pdf.

    With a dual run among them also routing.png and routing.pdf; what it can be held against where the runs of all
    its experts are there too (`diagnose`) is found without being asked for.
    All is worked out before the first file is written, and each file appears whole: a report that fails leaves
    an older one as it was. See `compare` for `radii` and `strict`.
    """
    by_name = named(runs)
    return write_found(by_name, study(by_name), folder, radii=radii, strict=strict, images=images)


def write_found(
    by_name: Mapping[str, Run],
    found: Study,
    folder: str | Path,
    *,
    radii: Sequence[float] | Floats | None = None,
    strict: bool = False,
    images: Dataset | None = None,
) -> list[Path]:
    """The same for what has been found already: taking all proofs anew is most of a report's time."""
    asked = grid(by_name.values(), radii)
    frame = table(by_name, found, asked, strict=strict)
    contents = {
        "report.html": document(by_name, found, frame, strict=strict, images=images).encode(),
        "report.md": page(by_name, found, frame, asked, strict=strict).encode(),
        "table.md": comparison(frame, strict=strict).encode(),
        "table.csv": frame.to_csv(index=False).encode(),
        **{f"{name}.{kind}": _picture(figure, kind) for name, figure in _figures(by_name, found) for kind in KINDS},
    }
    return [_put(Path(folder) / name, content) for name, content in contents.items()]


def _figures(runs: Mapping[str, Run], found: Study) -> "Iterator[tuple[str, Figure]]":
    curve = new_figure()
    draw_all(runs, found, curve.add_subplot())
    yield "curve", curve
    if found.routings:
        routes = new_figure(wide(found))
        draw_study(found, routes)
        yield "routing", routes


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
