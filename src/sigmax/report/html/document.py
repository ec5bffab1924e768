"""The page put together: template, style, script, plotting library and data in one text."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any

from sigmax import __version__
from sigmax.data import Dataset
from sigmax.records.certificate import Outcome
from sigmax.records.run import Run
from sigmax.report.html import library, text
from sigmax.report.html.figures import LEVEL, figures
from sigmax.report.html.inputs import inputs
from sigmax.report.html.packing import packed
from sigmax.report.html.thumbnails import FEWEST_LETTERS, MOST_LETTERS, Thumbnails, shown_in, thumbnails
from sigmax.report.plot import COLOURS
from sigmax.report.shared import why_not
from sigmax.report.study import Study

if TYPE_CHECKING:
    import pandas as pd

ROOM = 13_000_000  # letters of a page that still opens at once, less some for tables and curves
SCRIPTS = ("basics.js", "figures.js", "rows.js", "detail.js", "main.js")  # joined in this order, one scope


def document(
    runs: Mapping[str, Run], found: Study, frame: "pd.DataFrame", *, strict: bool, images: Dataset | None = None
) -> str:
    """The whole page. `images`: the data set the runs certified, to show each input; see `thumbnails`.

    The page's own policy forbids it to load anything, or to run a script other than the two it was written with.
    """
    plotly, script = library.plotly(), "\n".join(library.file(name) for name in SCRIPTS)
    with_images = [] if images is None else shown_in(runs, images)
    rows = [packed(inputs(name, run, found)) for name, run in runs.items()]
    pictures = None if images is None else _pictures(images, [runs[name] for name in with_images], rows)
    common = packed(_common(runs, found, with_images, pictures))
    return Template(library.file("page.html")).substitute(
        policy=_policy(library.digest(script), plotly.digest),
        title=escape(", ".join(runs)),
        style=library.file("page.css"),
        overview=text.overview(frame, strict=strict) + text.outcomes(runs, strict=strict),
        comparison=text.standings(runs, strict=strict),
        routing=text.routing(runs, found),
        cautions=text.cautions(runs, found),
        what_was_run=text.what_was_run(runs),
        version=escape(__version__),
        data="\n".join(_data(common, rows, () if pictures is None else pictures.sheets)),
        plotly=plotly.packed,
        script=script,
    )


def _pictures(images: Dataset, runs: Sequence[Run], rows: Sequence[str]) -> Thumbnails:
    """The inputs of all these runs, in the room that the rows of all runs leave."""
    room = ROOM - len(library.plotly().packed) - sum(map(len, rows))
    indices = sorted({record.index for run in runs for record in run.records})
    return thumbnails(images, indices, most_letters=min(MOST_LETTERS, max(FEWEST_LETTERS, room)))


def _data(common: str, rows: Sequence[str], sheets: Sequence[str]) -> Iterator[str]:
    """The elements that hold data: first what every part of the page needs, then a run each, then the sheets."""
    yield _element("data-page", common)
    yield from (_element(f"data-run-{number}", of_run) for number, of_run in enumerate(rows))
    yield from (_element(f"sheet-{number}", sheet) for number, sheet in enumerate(sheets))


def _common(
    runs: Mapping[str, Run], found: Study, with_images: list[str], pictures: Thumbnails | None
) -> dict[str, Any]:
    return {
        "runs": [
            {
                "name": name,
                "inputs": len(run.records),
                "classes": list(run.plan.data.get("classes") or ()),
                "comparable": _comparable(run, runs),
                "images": name in with_images,
            }
            for name, run in runs.items()
        ],
        "figures": figures(runs, found),
        "level": LEVEL,
        "colours": list(COLOURS),
        "outcomes": {outcome.name.lower(): outcome.advice for outcome in Outcome},
        "pictures": None if pictures is None else pictures.described(),
    }


def _comparable(run: Run, runs: Mapping[str, Run]) -> list[int]:
    """The numbers of the other runs that speak of the same inputs."""
    return [j for j, other in enumerate(runs.values()) if other is not run and why_not([run, other]) is None]


def _element(name: str, content: str) -> str:
    return f'<script type="application/octet-stream" id="{name}">{content}</script>'


def _policy(*digests: str) -> str:
    """What the browser may do: run these scripts, show pictures that stand in the page. No host is allowed."""
    allowed = " ".join(f"'{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
