"""A report as Markdown: the table, the notes, and what was run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sigmax.records.rounding import down, share_down
from sigmax.records.run import Run
from sigmax.report.accuracy import certified_radii
from sigmax.report.comparison import sigmas
from sigmax.report.notes import on_comparing, on_run

if TYPE_CHECKING:
    import pandas as pd

ACR_DECIMALS = 4


def markdown_table(frame: "pd.DataFrame", *, strict: bool) -> str:
    """The comparison for reading. Shares and average radii are rounded down: no run looks better than it was."""
    names = [str(name) for name in frame.columns]
    rows = [
        [_shown(name, cell) for name, cell in zip(names, row, strict=True)] for row in frame.itertuples(index=False)
    ]
    return f"{_table(names, rows)}\n{caption(strict=strict)}\n"


def caption(*, strict: bool) -> str:
    """What the columns of the table mean."""
    return (
        "Certified accuracy in % of inputs "
        f"(true class certified with radius {'>' if strict else '>='} the column's); "
        "ACR: average certified radius; abstained: in % of inputs. All rounded down."
    )


def page(runs: Mapping[str, Run], frame: "pd.DataFrame", *, strict: bool, plot: str) -> str:
    """The whole report as one page beside its `plot`."""
    parts = [
        "# Certified accuracy",
        f"![certified accuracy against the radius]({plot})",
        markdown_table(frame, strict=strict).rstrip(),
        "The line is the share of inputs, the band its 95% Clopper-Pearson interval at each radius by itself.",
    ]
    notes = "\n".join(_notes(runs))
    if notes:
        parts += ["## Notes", notes]
    parts += ["## What was run", *(_section(name, run) for name, run in runs.items())]
    return "\n\n".join(parts) + "\n"


def _notes(runs: Mapping[str, Run]) -> Iterator[str]:
    yield from (f"* {sentence}" for sentence in on_comparing(list(runs.values())))
    for name, run in runs.items():
        sentences = on_run(run)
        if sentences:
            yield f"* {name}:"
            yield from (f"  * {sentence}" for sentence in sentences)


def _section(name: str, run: Run) -> str:
    return f"### {name}\n\n" + "\n".join(f"* {label}: {value}" for label, value in _facts(run) if value is not None)


def _facts(run: Run) -> Iterator[tuple[str, object]]:
    plan = run.plan
    yield "file", f"`{run.path.name}`"
    yield "scheme", ", ".join([plan.method, *_settings(plan.rule)])
    yield "sigma", sigmas(run)
    yield "draws", f"n={plan.n:,}" + (f" after n0={plan.n0:,} to select the class" if plan.n0 else "")
    yield "alpha", f"{plan.alpha:g}"
    yield "data", " ".join(str(plan.data[key]) for key in ("name", "split") if plan.data.get(key))
    yield "fingerprint of the data", plan.data.get("fingerprint")
    yield "inputs", _inputs(run)
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


def _settings(rule: Mapping[str, Any]) -> list[str]:
    """What the scheme was told besides its name, its sigma and where a log came from."""
    known = ("scheme", "sigma", "sigmas", "file", "radii")
    return [f"{key} {value}" for key, value in rule.items() if key not in known]


def _inputs(run: Run) -> str:
    start, skip = run.plan.inputs["start"], run.plan.inputs["skip"]
    which = "every one" if skip == 1 else f"one in {skip}"
    return f"{len(run.records):,} of {run.planned:,} planned, from index {start} on, {which}"


def _made_with(made_with: Mapping[str, Any]) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in made_with.items() if key != "notes") or None


def _shown(name: str, value: Any) -> str:
    if name == "ACR":
        return down(value, ACR_DECIMALS)
    if name == "alpha":
        return f"{value:g}"
    return share_down(value) if isinstance(value, float) else str(value)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: text to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in names[1:])]
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in (names, rule, *rows))
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)
