"""Certificates and predictions as HTML, for notebooks: one sentence, then a row for each stage.

The HTML needs nothing from elsewhere, and every text in it is escaped, because a record may come from anywhere.
Radii and lower bounds are rounded down, upper bounds up.
"""

from collections.abc import Iterable, Sequence
from html import escape

from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage, leading, rounded_down, rounded_up

CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0"
LEADER, SECOND, OTHERS = "#4477aa", "#ee7733", "#88888866"
BAR_EM = 8  # width of a bar of votes
COLUMNS = ("part", "role", "sigma", "votes", "bounds", "what it proves")
CAPTION = (
    "Votes: the leading column, the second (orange) and all others (grey). A column is a class; of a router, an "
    "expert; the one after the last class is the vote to defer."
)


class Html(str):
    """Text that is HTML already; any other text is escaped where it becomes part of a page."""


def paragraph(text: str, *, strong: bool = False, small: bool = False) -> Html:
    """A line of text."""
    inner = f"<b>{escaped(text)}</b>" if strong else escaped(text)
    size = "font-size:smaller;" if small else ""
    return Html(f'<p style="{size}margin:0.3em 0">{inner}</p>')


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table with a heading; a cell that is no `Html` is escaped."""
    head = f"<thead>{_table_row('th', names)}</thead>" if names else ""
    body = "".join(_table_row("td", row) for row in rows)
    return Html(f'<table style="border-collapse:collapse">{head}<tbody>{body}</tbody></table>')


def _table_row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind} style={CELL!r}>{escaped(cell)}</{kind}>' for cell in cells)}</tr>"


def page(*parts: str) -> str:
    """The whole of an object's HTML."""
    return f'<div style="line-height:1.35">{"".join(escaped(part) for part in parts)}</div>'


def escaped(text: str) -> str:
    """The text as HTML."""
    return text if isinstance(text, Html) else escape(text)


def certificate_html(certificate: Certificate) -> str:
    """What `Certificate._repr_html_` shows."""
    said = [paragraph(certificate.explain(), strong=True)]
    if certificate.predicted is not None and certificate.outcome is not Outcome.CERTIFIED:
        said.append(paragraph(f"{certificate.outcome.name.lower()}: {certificate.outcome.advice}."))
    rows = [_row(stage, _part_of_proof(stage, certificate)) for stage in certificate.stages]
    return page(*said, *_stages(rows, f"alpha {certificate.alpha:g}, {certificate.samples:,} samples"))


def prediction_html(prediction: Prediction) -> str:
    """What `Prediction._repr_html_` shows."""
    outcome = prediction.outcome
    if prediction.predicted is None:
        said = f"Abstained ({outcome.name.lower()}): {outcome.advice}."
    else:
        said = f"Class {prediction.predicted}: {outcome.advice}."
    p_value = f"p-value at most {rounded_up(prediction.p_value)} at alpha {prediction.alpha:g}"
    rows = [_row(stage, _PROVES[stage.role]) for stage in prediction.stages]
    return page(paragraph(said, strong=True), *_stages(rows, f"{p_value}; {prediction.samples:,} samples"))


_PROVES = {
    Role.SELECTION: "nothing; it picks what is estimated",
    Role.ESTIMATION: "no radius",
    Role.PREDICTION: "which class leads, without a radius",
    Role.SCORE: "no radius",
    Role.OFFSETS: "no radius",
    Role.SIGMA: "nothing; it is the noise of this input",
    Role.MEMORY: "no radius",
    Role.CLAIM: "nothing; another tool's log states it",
}


def _stages(rows: Sequence[Sequence[str]], facts: str) -> list[Html]:
    """The table of the stages with what its bars mean; a log has no stages."""
    return [table(COLUMNS, rows), paragraph(f"{facts}. {CAPTION}", small=True)] if rows else []


def _part_of_proof(stage: Stage, certificate: Certificate) -> Html:
    """A stage's own radius, which is not the certificate's, and whether the stage limits that."""
    if stage.radius:
        alone = " of this part alone" if stage.part else ""
        proves = f"radius {rounded_down(stage.radius)}{alone}"
    else:
        proves = _PROVES[stage.role]
    if stage.name != certificate.limited_by:
        return Html(escape(proves))
    return Html(f"{escape(proves)}; <b>{'limits the radius' if certificate.radius else 'decides'}</b>")


def _row(stage: Stage, proves: str) -> tuple[str, ...]:
    noise = "none" if stage.role is Role.SCORE else f"{stage.sigma:g}"
    return (stage.part or "whole", str(stage.role), noise, _votes(stage), _bounds(stage), proves)


def _bounds(stage: Stage) -> str:
    if stage.role is Role.SCORE:
        first, second, *_ = stage.scores
        return f"leading score {rounded_down(first)}, strongest rival {rounded_up(second)}"
    facts = [] if stage.lower is None else [f"p_A >= {rounded_down(stage.lower)}"]
    facts += [] if stage.upper is None else [f"every other p <= {rounded_up(stage.upper)}"]
    return ", ".join(facts)


def _votes(stage: Stage) -> Html:
    """A bar of the votes, and the leading column's count."""
    if not stage.n or len(stage.counts) < 2 or stage.role is Role.SCORE:
        return Html("")
    first, second = leading(stage.counts)
    parts = ((stage.counts[first], LEADER), (stage.counts[second], SECOND))
    slices = "".join(
        f'<span style="display:inline-block;height:100%;width:{100 * votes / stage.n:.2f}%;background:{colour}"></span>'
        for votes, colour in parts
    )
    bar = (
        f'<span style="display:inline-block;width:{BAR_EM}em;height:0.7em;background:{OTHERS};line-height:0;'
        f'white-space:nowrap;margin-right:0.5em">{slices}</span>'
    )
    return Html(f"{bar}{first}: {stage.counts[first]:,} of {stage.n:,}")
