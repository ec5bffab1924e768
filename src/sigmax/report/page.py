"""A report as Markdown: the table, the notes, and what was run."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmax.certify.sampling import in_words, remade
from sigmax.records.rounding import down
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_radii
from sigmax.report.comparison import sigmas
from sigmax.report.markdown import ACR_DECIMALS, as_text, code, comparison, paragraphs
from sigmax.report.notes import on_comparing, on_run, on_study, stated
from sigmax.report.questions import mean_draws
from sigmax.report.routing_page import routing_section
from sigmax.report.schemes import scheme_text
from sigmax.report.shares import answers_by_sigma
from sigmax.report.study import Study

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 8  # of noise that a line can tell of; where it differs from input to input there are too many


def page(runs: Mapping[str, Run], found: Study, frame: "pd.DataFrame", radii: Floats, *, strict: bool) -> str:
    """The whole report as one page beside its plots."""
    parts = [
        "# Certified accuracy",
        "![certified accuracy against the radius](curve.png)",
        comparison(frame, strict=strict).rstrip(),
        "The line is the share of inputs certified with R >= r, the band its 95% Clopper-Pearson interval at each "
        "radius by itself. Radii are as recorded; `sigmax verify` proves them anew from the votes.",
    ]
    if found.routings:
        parts += routing_section(runs, found, radii, strict=strict)
    told = "\n".join(_bullets(runs, found))
    if told:
        parts += ["## Notes", told]
    parts += ["## What was run", *(_section(name, run) for name, run in runs.items())]
    return paragraphs(parts)


def notes(runs: Mapping[str, Run], found: Study) -> Iterator[tuple[str | None, list[str]]]:
    """What a reader must know: sentences on the comparison, under no name; on all runs, once; on single ones."""
    yield None, [*on_comparing(list(runs.values())), *on_study(found)]
    told = {
        name: [*on_run(run), *([found.notes[name]] if name in found.notes else [])] for name, run in runs.items()
    }
    first, *others = told.values()
    common = [sentence for sentence in first if others and all(sentence in other for other in others)]
    if common:
        yield "each run", common
    for name, sentences in told.items():
        own = [sentence for sentence in sentences if sentence not in common]
        if own:
            yield name, own


def _bullets(runs: Mapping[str, Run], found: Study) -> Iterator[str]:
    for name, sentences in notes(runs, found):
        if name is not None:
            yield f"* {as_text(name)}:"
        yield from (f"{'* ' if name is None else '  * '}{as_text(sentence)}" for sentence in sentences)


def _section(name: str, run: Run) -> str:
    told = [f"* {label}: {_marked(label, value)}" for label, value in facts(run) if value is not None]
    return f"### {as_text(name)}\n\n" + "\n".join(told)


def _marked(label: str, value: object) -> str:
    """A file's name as code, between more ticks than it holds; all else as text."""
    return code(str(value)) if label == "file" else as_text(str(value))


def facts(run: Run) -> Iterator[tuple[str, object]]:
    """What was run, as labels and values; a value of None is one the run does not state."""
    plan = run.plan
    yield "file", run.path.name
    yield "scheme", scheme_text(plan.rule)
    yield "sigma", sigmas(run)
    yield "draws", _draws(run)
    yield "alpha", f"{plan.alpha:g}"
    yield "data", stated(plan.data)
    yield "fingerprint of the data", plan.data.get("fingerprint")
    yield "inputs", _inputs(run)
    yield "outcomes", _outcomes(run)
    yield "answered by", _answered(run)
    yield (
        "largest radius of a true class",
        down(float(certified_radii(run).max(initial=0.0)), ACR_DECIMALS),
    )
    yield "seconds", f"{sum(record.seconds for record in run.records):,.1f} in all"
    yield "seed", plan.seed
    yield "noise", plan.noise
    yield "arithmetic", plan.arithmetic
    yield "system", plan.system
    yield "made with", _made_with(plan.made_with)


def _draws(run: Run) -> str:
    plan = run.plan
    if plan.method == "lipschitz":
        return "none: one look at the scores of each input"
    sampling = remade(plan.sampling)
    most = "at most " if sampling.kind == "adaptive" else ""
    told = f"{most}n={plan.n:,}" + (f" after n0={plan.n0:,} to select the class" if plan.n0 else "")
    if sampling.kind == "adaptive":
        told += f", {in_words(sampling)}"
    if plan.method == "dual":
        told += ", for the router and for each expert asked"
    elif plan.method == "multiscale":
        told += ", at each scale asked"
    elif sampling.kind == "fixed":
        return told
    return f"{told}; {mean_draws(run):,.0f} an input on average"


def _inputs(run: Run) -> str:
    start, skip = run.plan.inputs["start"], run.plan.inputs["skip"]
    which = "every one" if skip == 1 else f"one in {skip}"
    return f"{len(run.records):,} of {run.planned:,} planned, from index {start} on, {which}"


def _outcomes(run: Run) -> str:
    """How often which, the most frequent first."""
    times = Counter(record.certificate.outcome.name.lower().replace("_", " ") for record in run.records)
    return ", ".join(f"{outcome} {count:,}" for outcome, count in times.most_common())


def _answered(run: Run) -> str | None:
    """How the inputs were shared out, where a scheme has a few noise levels to choose from."""
    found = answers_by_sigma(run)
    if not 2 <= len(found) <= MOST_LEVELS:
        return None
    told = []
    for sigma, row in found.iterrows():
        which = "nobody" if np.isnan(float(str(sigma))) else f"sigma {sigma:g}"
        reach = f", to {down(row['mean_radius'], 2)} on average" if row["right"] else ""
        told.append(f"{which}: {row['inputs']:,.0f}, of which {row['right']:,.0f} right{reach}")
    return "; ".join(told)


def _made_with(made_with: Mapping[str, Any]) -> str | None:
    """Versions and batch sizes; a dual run's list of experts names systems whose runs say more themselves."""
    left_out = ("notes", "experts")
    return ", ".join(f"{key} {_plainly(value)}" for key, value in made_with.items() if key not in left_out) or None


def _plainly(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(str(size) if name == "base" else f"{name} {size}" for name, size in value.items())
