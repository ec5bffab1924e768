"""Runs and verdicts as HTML, for notebooks: what a run is, its certified accuracy, and how to look further.

# A(r) share of inputs whose true class is certified with R >= r; without labels, whose class, whichever, is
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sigmax import bounds
from sigmax.errors import RequestError
from sigmax.radius.noise import noise_in_words
from sigmax.records.failed import failed_inputs
from sigmax.records.rounding import exact, share_down, up
from sigmax.rules.notebook import Html, page, paragraph, table
from sigmax.rules.registry import entry

if TYPE_CHECKING:
    from sigmax.records.run import Run
    from sigmax.records.verify import Verdict

MOST_RADII = 6
STEPS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # between the radii of the table
LEVEL = 0.95  # of the intervals
SHOWN = 20  # findings of a verdict, and failed inputs of a run


def run_html(run: "Run") -> str:
    """What `Run._repr_html_` shows."""
    plan = run.plan
    head = f"{run.path.name}: {plan.method} on {_data(run)}, {len(run.records):,} of {run.planned:,} inputs"
    parts = [paragraph(f"{head}, {'finished' if run.finished else 'unfinished'}.", strong=True)]
    parts += [paragraph(text) for text in _unfinished(run)]
    parts.append(table((), _facts(run)))
    if run.records:
        parts.append(_accuracy(run))
    parts.append(paragraph(f"One row an input: run.frame(). Figures: sigmax report {run.path}", small=True))
    return page(*parts)


def verdict_html(verdict: "Verdict") -> str:
    """What `Verdict._repr_html_` shows."""
    extent = f"{verdict.records:,} of {verdict.planned:,} inputs" + ("" if verdict.finished else ", unfinished")
    if verdict.findings:
        said = f"it does not verify, findings: {len(verdict.findings):,}"
    elif verdict.imported:
        said = "a log without counts, so nothing is proved; no claim in it is impossible"
    else:
        said = "every radius follows from its counts"
    rows = [(str(finding.line), finding.message) for finding in verdict.findings[:SHOWN]]
    more = len(verdict.findings) - len(rows)
    rows += [("...", f"and {more:,} more")] if more else []
    found = [table(("line", "what is wrong"), rows)] if rows else []
    return page(paragraph(f"{verdict.path.name}: {said} ({extent}).", strong=True), *found)


def _data(run: "Run") -> str:
    return " ".join(str(run.plan.data[key]) for key in ("name", "split") if run.plan.data.get(key)) or "unnamed data"


def _facts(run: "Run") -> Iterator[tuple[str, str]]:
    plan = run.plan
    with suppress(RequestError):  # a scheme of a package that is not installed here can still be shown
        yield "scheme", entry(plan.method).summary
    noise = noise_in_words(plan.rule)
    if noise is not None:
        yield "noise", noise
    sampling = str(plan.sampling.get("kind", "fixed"))
    first = "" if plan.n0 is None else f"n0 {plan.n0:,}, "
    yield "samples", f"{first}n {plan.n:,}" + ("" if sampling == "fixed" else f" at most, {sampling}")
    yield "alpha", f"{plan.alpha:g}"
    yield "norm", plan.norm


def _unfinished(run: "Run") -> Iterator[str]:
    failed = [] if run.finished else failed_inputs(run.path)
    if failed:
        named = ", ".join(map(str, failed[:SHOWN])) + ", ..." * (len(failed) > SHOWN)
        yield f"Inputs that failed in the last attempt: {named}. Their errors are in {run.path.name}.failed.json."
    if not run.finished:
        yield "The call or command that began it goes on with it."


def _accuracy(run: "Run") -> Html:
    """A table of A(r) with its interval over inputs."""
    right = [record.certificate.radius for record in run.records if record.counts]
    n, radii = len(run.records), _radii(run, right)
    certified = [sum(radius >= r for radius in right) for r in radii]
    low, high = bounds.lower(certified, n, (1 - LEVEL) / 2), bounds.upper(certified, n, (1 - LEVEL) / 2)
    what = "certified accuracy" if run.labelled else "inputs certified, whatever their class"
    what = f"{what}, as the log claims" if run.plan.imported else what
    rows = [
        [what, *(f"{share_down(100 * k / n)}%" for k in certified)],
        [
            f"{100 * LEVEL:g}% interval",
            *(f"{share_down(100 * a)} to {up(100 * b, 1)}" for a, b in zip(low, high, strict=True)),
        ],
    ]
    return table(("radius", *(exact(r) for r in radii)), rows)


def _radii(run: "Run", certified: Sequence[float]) -> list[float]:
    """The radii that the run was asked about; else even steps up to about the largest that it certifies."""
    targets = run.plan.sampling.get("targets")
    if targets:
        return spread(sorted(float(r) for r in targets))
    largest = max(certified, default=0.0)
    step = next((step for step in STEPS if step * (MOST_RADII - 1) >= largest), math.ceil(largest / (MOST_RADII - 1)))
    return [round(step * i, 6) for i in range(math.floor(largest / step) + 1)][:MOST_RADII]


def spread(radii: Sequence[float]) -> list[float]:
    """At most `MOST_RADII` of the radii, the first and the last among them."""
    if len(radii) <= MOST_RADII:
        return list(radii)
    return [radii[round(i * (len(radii) - 1) / (MOST_RADII - 1))] for i in range(MOST_RADII)]
