"""Reports as folders: a page to explore, the same as Markdown, and tables and plots for use elsewhere."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from sigmax.data import as_dataset
from sigmax.files import written_whole
from sigmax.records.run import Run
from sigmax.report.compare.comparison import scheme_table, table
from sigmax.report.compare.diagnosis import RoutingAnalysis, routing_analysis
from sigmax.report.html.document import document
from sigmax.report.markdown import as_text, bullets, comparison, markdown_table, page, paragraphs
from sigmax.report.metrics.accuracy import Floats, grid
from sigmax.report.plots.curves import draw, draw_all
from sigmax.report.plots.routing import draw_analysis, wide
from sigmax.report.plots.style import METADATA, axes, new_figure, picture, whole_figure
from sigmax.report.runs import Source, named, norm_of
from sigmax.report.schemes import in_words
from sigmax.report.tables import Table, measured, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 160  # an inch, in the PNG


def write(
    runs: Source | Iterable[Source],
    folder: str | Path,
    *,
    radii: Sequence[float] | Floats | None = None,
    images: object = None,
    found: RoutingAnalysis | None = None,
) -> list[Path]:
    """Write report.html into `folder`, created if needed, and the same for use elsewhere; returns all paths.

    report.html is one self-contained page: overview, interactive curves, comparison and every single input, with its
    image where `images`, the data set that the runs certified, is given. Beside it lie report.md, table.md, table.csv
    and curve.png and .pdf; with a dual run among them also routing.png and .pdf (see `diagnose`).
    A report that fails leaves an older one as it was. `radii`: see `compare`. `found`: what is known of the routing
    already, since replaying all proofs is most of a report's time.
    """
    by_name = named(runs)
    shown_images = None if images is None else as_dataset(images)
    found = routing_analysis(by_name) if found is None else found
    asked = grid(by_name.values(), radii)
    frame = table(by_name, found, asked)
    contents = {
        "report.html": document(by_name, found, frame, images=shown_images).encode(),
        "report.md": page(by_name, found, frame, asked).encode(),
        "table.md": comparison(frame).encode(),
        "table.csv": frame.to_csv(index=False).encode(),
        **{
            f"{name}.{kind}": picture(figure, kind, dots=DOTS)
            for name, figure in _figures(by_name, found)
            for kind in METADATA
        },
    }
    return _put_all(Path(folder), contents)


def _figures(runs: Mapping[str, Run], found: RoutingAnalysis) -> "Iterator[tuple[str, Figure]]":
    curve = new_figure()
    draw_all(runs, found, curve.add_subplot())
    yield "curve", curve
    if found.routings:
        routes = new_figure(wide(found))
        draw_analysis(found, routes)
        yield "routing", routes


def _put_all(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    for name, content in contents.items():
        with written_whole(folder / name) as draft:
            draft.write_bytes(content)
    return [folder / name for name in contents]


def write_scheme_table(
    runs: Mapping[str, Run], out: str | Path, radii: Sequence[float] | Floats | None = None
) -> list[Path]:
    """Write compare.md, .csv and .json, and the figure compare.pdf and .png into a folder."""
    frame, ax = scheme_table(runs, radii), draw(list(runs.values()), axes(columns=2))
    contents = {
        "compare.md": _page(runs, frame).encode(),
        "compare.csv": frame.to_csv(index=False).encode(),
        "compare.json": (json.dumps(_plain(runs, frame), indent=1) + "\n").encode(),
        **{f"compare.{kind}": picture(whole_figure(ax), kind) for kind in METADATA},
    }
    return _put_all(Path(out), contents)


def _plain(runs: Mapping[str, Run], frame: pd.DataFrame) -> list[dict[str, object]]:
    """The rows, each with what its run was asked; a cell without a number is null."""
    cells = frame.astype(object).where(frame.notna(), None)
    return [
        {
            **{str(name): value for name, value in row.items()},
            "inputs": len(run.records),
            **{name: getattr(run.plan, name) for name in ("n0", "n", "alpha", "seed", "arithmetic")},
            "sampling": dict(run.plan.sampling),
            "rule": dict(run.plan.rule),
        }
        for row, run in zip(cells.to_dict("records"), runs.values(), strict=True)
    ]


def _page(runs: Mapping[str, Run], frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    rows = [[shown(n, cell) for n, cell in zip(names, row, strict=True)] for row in frame.itertuples(index=False)]
    first = next(iter(runs.values()))
    inputs = f"{len(first.records):,} inputs of {first.plan.data['name']} {first.plan.data['split']}"
    notes, words = "\n".join(bullets(runs, RoutingAnalysis({}, {}))), measured(frame)
    return paragraphs(
        [
            "# Schemes compared",
            f"{inputs}, n={first.plan.n:,}, alpha={first.plan.alpha:g}. {words.capitalize()} in % at "
            f"{norm_of(runs.values())} radii, rounded down; samples and seconds are an input's, on average.",
            markdown_table(Table(names, rows)),
            f"![{words} against the radius](compare.png)",
            "## What was run",
            "\n".join(f"* {as_text(name)}: {as_text(in_words(run.plan.rule))}" for name, run in runs.items()),
            *(["## Notes", notes] if notes else []),
        ]
    )
