"""A report as Markdown: the tables, the notes, and what was run."""

import re
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from sigmax.records.run import Run
from sigmax.report import tables
from sigmax.report.compare.diagnosis import RoutingAnalysis
from sigmax.report.metrics.accuracy import Floats
from sigmax.report.notes import facts, notes
from sigmax.report.standings import MEANING as MEANING_OF_STANDINGS
from sigmax.report.standings import standings

_MARKS = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)")  # within a word an underscore is itself


def page(runs: Mapping[str, Run], found: RoutingAnalysis, frame: pd.DataFrame, radii: Floats) -> str:
    """The whole report as one page beside its plots."""
    words = tables.measured(frame)
    parts = [
        f"# {words.capitalize()}",
        f"![{words} against the radius](curve.png)",
        comparison(frame).rstrip(),
        "The line is the share of inputs certified with R >= r, the band its 95% Clopper-Pearson interval at each "
        "radius by itself. Radii are as recorded; `sigmax verify` checks them against the votes.",
    ]
    if len(runs) > 1:
        parts += _standings(runs)
    if found.routings:
        parts += _routing(runs, found, radii)
    listed = "\n".join(bullets(runs, found))
    if listed:
        parts += ["## Notes", listed]
    parts += ["## What was run", *(_section(name, run) for name, run in runs.items())]
    return paragraphs(parts)


def comparison(frame: pd.DataFrame) -> str:
    """The overview with its caption."""
    return paragraphs([markdown_table(tables.overview(frame)), *tables.caption(frame)])


def _standings(runs: Mapping[str, Run]) -> Iterator[str]:
    yield "## Which is better"
    found = standings(runs.values())
    if found.matrix is not None:
        yield markdown_table(found.matrix)
        yield MEANING_OF_STANDINGS
    yield "\n".join(f"* {as_text(sentence)}" for sentence in found.sentences)


def _routing(runs: Mapping[str, Run], found: RoutingAnalysis, radii: Floats) -> Iterator[str]:
    yield "## Routing"
    yield "![routing of the inputs](routing.png)"
    yield markdown_table(tables.routing_table(runs, found))
    yield tables.MEANING
    if found.diagnoses:
        yield tables.MEANING_WITH_EXPERTS
        yield tables.RATIOS
        yield markdown_table(tables.envelope_ratios(found, radii))


def bullets(runs: Mapping[str, Run], found: RoutingAnalysis) -> Iterator[str]:
    """The notes as a list, those of a run below its name."""
    for name, sentences in notes(runs, found):
        if name is not None:
            yield f"* {as_text(name)}:"
        yield from (f"{'* ' if name is None else '  * '}{as_text(sentence)}" for sentence in sentences)


def _section(name: str, run: Run) -> str:
    """A file's name as code; all else as text."""
    lines = [f"* {label}: {(code if label == 'file' else as_text)(value)}" for label, value in facts(run)]
    return f"### {as_text(name)}\n\n" + "\n".join(lines)


def markdown_table(content: tables.Table) -> str:
    """A Markdown table: text to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in content.names[1:])]
    head, *rows = [[as_text(cell) for cell in row] for row in (content.names, *content.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def as_text(name: str) -> str:
    """A name that Markdown shows as it is: names come from files, and may look like a link or a tag."""
    return _MARKS.sub(r"\\\g<0>", name).replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")


def code(text: str) -> str:
    """Text as code, between more ticks than it holds itself."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{text}{ticks}" if len(ticks) == 1 else f"{ticks} {text} {ticks}"


def paragraphs(parts: Iterable[str]) -> str:
    """The parts of a page, a blank line between them."""
    return "\n\n".join(parts) + "\n"
