"""The page put together: template, style, script, plotting library and data in one text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from sigmax.data import Dataset
from sigmax.records.run import Run
from sigmax.report import tables
from sigmax.report.compare.diagnosis import RoutingAnalysis
from sigmax.report.html.figures import figures
from sigmax.report.html.inputs import inputs
from sigmax.report.html.packing import asset, digest, packed, plotly, template
from sigmax.report.html.thumbnails import FEWEST_LETTERS, MOST_LETTERS, Thumbnails, shown_in, thumbnails
from sigmax.report.metrics.accuracy import LEVEL
from sigmax.report.notes import facts, notes
from sigmax.report.plots.style import COLOURS
from sigmax.report.runs import why_not
from sigmax.report.standings import MEANING as MEANING_OF_STANDINGS
from sigmax.report.standings import standings
from sigmax.rules.certificate import Outcome
from sigmax.version import __version__

ROOM = 13_000_000  # letters of a page that still opens at once, less some for tables and curves
SCRIPTS = ("basics.js", "figures.js", "rows.js", "detail.js", "main.js")  # joined in this order, one scope


def document(
    runs: Mapping[str, Run],
    found: RoutingAnalysis,
    frame: pd.DataFrame,
    *,
    images: Dataset | None = None,
) -> str:
    """The whole page. `images`: the data set the runs certified, to show each input; see `thumbnails`.

    The page's own policy forbids it to load anything, or to run a script other than the two it was written with.
    """
    library, script = plotly(), "\n".join(asset(name) for name in SCRIPTS)
    with_images = [] if images is None else shown_in(runs, images)
    rows = [packed(inputs(name, run, found)) for name, run in runs.items()]
    pictures = None if images is None else _pictures(images, [runs[name] for name in with_images], rows)
    common = packed(_common(runs, found, with_images, pictures))
    numbers, shared = tables.without_shared(tables.overview(frame))
    return template("page.html").render(
        measured=tables.measured(frame),
        policy=_policy(digest(script), library.digest),
        title=", ".join(runs),
        style=asset("page.css"),
        overview=numbers,
        caption=[*filter(None, [shared]), *tables.caption(frame)],
        outcomes=tables.outcomes(runs),
        labelled=all(run.labelled for run in runs.values()),
        standings=standings(runs.values()),
        meaning_of_standings=[MEANING_OF_STANDINGS],
        routing=_routing(runs, found),
        notes=list(notes(runs, found)),
        runs={name: list(facts(run)) for name, run in runs.items()},
        version=__version__,
        data=list(_data(common, rows, () if pictures is None else pictures.sheets)),
        plotly=library.packed,
        script=script,
    )


def _routing(runs: Mapping[str, Run], found: RoutingAnalysis) -> dict[str, Any] | None:
    """What the routers did; None where there is no router."""
    meaning = [tables.MEANING, *([tables.MEANING_WITH_EXPERTS] if found.diagnoses else [])]
    return {"table": tables.routing_table(runs, found), "meaning": meaning} if found.routings else None


def _pictures(images: Dataset, runs: Sequence[Run], rows: Sequence[str]) -> Thumbnails:
    """The inputs of all these runs, in the room that the rows of all runs leave."""
    room = ROOM - len(plotly().packed) - sum(map(len, rows))
    indices = sorted({record.index for run in runs for record in run.records})
    return thumbnails(images, indices, most_letters=min(MOST_LETTERS, max(FEWEST_LETTERS, room)))


def _data(common: str, rows: Sequence[str], sheets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The elements that hold data: first what every part of the page needs, then a run each, then the sheets."""
    yield "data-page", common
    yield from ((f"data-run-{number}", of_run) for number, of_run in enumerate(rows))
    yield from ((f"sheet-{number}", sheet) for number, sheet in enumerate(sheets))


def _common(
    runs: Mapping[str, Run], found: RoutingAnalysis, with_images: list[str], pictures: Thumbnails | None
) -> dict[str, Any]:
    return {
        "runs": [
            {
                "name": name,
                "inputs": len(run.records),
                "classes": list(run.plan.data.get("classes") or ()),
                "labelled": run.labelled,
                "comparable": [j for j, o in enumerate(runs.values()) if o is not run and why_not([run, o]) is None],
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


def _policy(*digests: str) -> str:
    """What the browser may do: run these scripts, show pictures that stand in the page. No host is allowed."""
    allowed = " ".join(f"'{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
