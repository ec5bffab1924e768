"""The parts of the page that are written here: tables, sentences and what was run, as HTML."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from sigmax.records.rounding import down, share_down, share_up, up
from sigmax.records.run import Run
from sigmax.report.dominance import dominance
from sigmax.report.markdown import caption, cells
from sigmax.report.page import facts, notes
from sigmax.report.routing_page import MEANING, MEANING_WITH_EXPERTS, routing_table
from sigmax.report.shares import outcome_shares
from sigmax.report.study import Study

if TYPE_CHECKING:
    import pandas as pd

WORDS = 30  # letters from which on a cell is a sentence
MOST_SENTENCES = 10  # five runs, each held against each other
BY_AT_LEAST = "Curves and sentences count a radius that is reached (R >= r); the tables of this report do not."
OUTCOMES = ("certified", "misclassified", "abstained")


def overview(frame: "pd.DataFrame", *, strict: bool) -> str:
    """The comparison as a table that scrolls sideways where the screen is narrow."""
    return table("Overview of the runs", *cells(frame)) + paragraph(caption(frame, strict=strict))


def outcomes(runs: Mapping[str, Run], *, strict: bool) -> str:
    """What became of the inputs, with how sure that is."""
    names = ["run", *OUTCOMES]
    rows = [[name, *_shares(run, strict)] for name, run in runs.items()]
    meaning = (
        "In % of inputs, with the 95% interval over inputs: certified for the true class with radius "
        f"{'> 0' if strict else '>= 0'}, certified for a wrong one, or not at all. Rounded to the side that claims "
        "less: what was certified down, what was lost up, intervals outward. Radii are as recorded; "
        "`sigmax verify` proves them anew from the votes."
    )
    return f"<h3>What became of the inputs</h3>{table('Outcomes', names, rows)}{paragraph(meaning)}"


def _shares(run: Run, strict: bool) -> Iterator[str]:
    shares = outcome_shares(run, strict=strict).loc[list(OUTCOMES), ["share", "low", "high"]]
    for outcome, (share, low, high) in zip(OUTCOMES, 100 * shares.to_numpy(dtype=float), strict=True):
        told = share_down(share) if outcome == "certified" else share_up(share)
        yield f"{told} ({down(low, 1)} to {up(high, 1)})"


def standings(runs: Mapping[str, Run], *, strict: bool) -> str:
    """Which run is better, in words: a sentence for every two of them."""
    told = [str(pair) for pair in dominance(runs.values())]
    if not told:
        return paragraph("There is one run; give several to compare them.")
    return sentences("Which is better", told) + (paragraph(BY_AT_LEAST) if strict else "")


def routing(runs: Mapping[str, Run], found: Study) -> str:
    """What the routers did, or nothing where there is none."""
    if not found.routings:
        return ""
    words = [MEANING, *([MEANING_WITH_EXPERTS] if found.diagnoses else [])]
    head = "<h3>Routing</h3>" + table("Routing", *routing_table(runs, found))
    return head + "".join(map(paragraph, words))


def cautions(runs: Mapping[str, Run], found: Study) -> str:
    """What must be known before the numbers are believed, or nothing."""
    items = "".join(_caution(name, sentences) for name, sentences in notes(runs, found))
    return f"<h3>Before you compare</h3><ul>{items}</ul>" if items else ""


def _caution(name: str | None, sentences: Sequence[str]) -> str:
    if name is None:
        return "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<li>{escape(name)}: {escape('; '.join(sentences))}</li>"


def what_was_run(runs: Mapping[str, Run]) -> str:
    """Every run's plan, folded away."""
    return "".join(_run(name, run) for name, run in runs.items())


def _run(name: str, run: Run) -> str:
    told: Iterator[tuple[str, object]] = ((label, value) for label, value in facts(run) if value is not None)
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(str(value))}</dd>" for label, value in told)
    return f"<details><summary>{escape(name)}</summary><dl>{rows}</dl></details>"


def sentences(title: str, told: Iterable[str]) -> str:
    """A list of sentences under a heading, or nothing; of very many the later ones are folded away."""
    items = [f"<li>{escape(sentence)}</li>" for sentence in told]
    first, later = "".join(items[:MOST_SENTENCES]), "".join(items[MOST_SENTENCES:])
    more = f"<details><summary>{len(items) - MOST_SENTENCES} more</summary><ul>{later}</ul></details>"
    return f"<h3>{escape(title)}</h3><ul>{first}</ul>{more if later else ''}" if items else ""


def paragraph(sentence: str) -> str:
    """A paragraph in small print."""
    return f'<p class="small">{escape(sentence)}</p>'


def _cell(text: str) -> str:
    """A cell of words may take several lines; numbers never do."""
    return f"<td{' class=words' if len(text) > WORDS else ''}>{escape(text)}</td>"


def table(name: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names its rows; it can be scrolled by keyboard."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in names)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(map(_cell, cells))}</tr>' for first, *cells in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
