"""The tables of a report as text, for Markdown, the page and the terminal: rounded so that no run looks better."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from sigmax.records.rounding import down, exact, share_down, share_up, up
from sigmax.records.run import Run
from sigmax.report.compare.comparison import (
    ACR,
    EASIEST,
    MEAN_RADIUS,
    MEAN_SAMPLES,
    SAMPLES,
    SECONDS,
    is_accuracy,
)
from sigmax.report.compare.diagnosis import Diagnosis, RoutingAnalysis, route_shares
from sigmax.report.metrics.accuracy import WARNING, Floats, acr
from sigmax.report.metrics.shares import outcome_shares
from sigmax.report.schemes import short_name

ACR_DECIMALS = 4
NOTHING = "-"  # where there is no number to give
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "alpha": "{:g}".format,
    SAMPLES: "{:,.0f}".format,
    MEAN_SAMPLES: "{:,.0f}".format,
    SECONDS: "{:.3g}".format,
    EASIEST: share_up,  # smaller is better
    "abstained": share_up,
}
SETTINGS = ("n", "alpha", "inputs")
OUTCOMES = ("certified", "misclassified", "abstained")
WITHOUT_LABELS = ("certified", "abstained")
RATIO_DECIMALS = 3
COLUMNS = ["run", "inputs", "top route in %", "experts asked", "router limits", "next route nearer"]
WITH_EXPERTS = ["best expert", "mean dRc", "ACR", "oracle ACR", "envelope ACR"]
MEANING = (
    "Top route: the expert the router put first, by its noise. Router limits: inputs certified for less than that "
    "expert alone certifies (the radius is below R_c), or left undecided by the router. Next route nearer: inputs "
    "where another route could win within the expert's radius (dRs = R_sigma - R_c < 0); by the rule consensus "
    "that costs nothing where the experts agree. In % of inputs; R_c is 0 where the expert abstains or is wrong."
)
MEANING_WITH_EXPERTS = (
    "Best expert: inputs sent to an expert that no other one beats (dRc = R_best - R_c = 0). Oracle: the best "
    "expert for each input, chosen by the true class; no router can do better with these experts, up to chance: the "
    "experts' own runs use other noise samples than the dual run, so with few inputs or samples a dual run can lie "
    "above it. Envelope: the best expert for each radius, without any router."
)
RATIOS = "Certified accuracy of the dual run over that of the envelope, on the inputs both hold, rounded down:"


class Table(NamedTuple):
    """The names of the columns, and rows of as many cells; the first cell names the row."""

    names: list[str]
    rows: list[list[str]]


def measured(frame: pd.DataFrame) -> str:
    """What the columns of radii in a table of runs hold, in words."""
    return "certified accuracy" if is_accuracy(frame) else "certified share"


def overview(frame: pd.DataFrame) -> Table:
    """The comparison: where sampling could stop early, what an input took stands beside the most it may take."""
    names = [str(name) for name in frame.columns if name != MEAN_SAMPLES]
    rows = [[shown(name, row[name]) for name in names] for row in frame.to_dict("records")]
    for row, mean in zip(rows, frame.get(MEAN_SAMPLES, []), strict=False):
        if not math.isnan(mean):
            place = names.index("n")
            row[place] = f"at most {row[place]}, {mean:,.0f} samples an input on average"
    return Table(names, rows)


def without_shared(table: Table) -> tuple[Table, str]:
    """The overview without the settings that all runs share, and those in a sentence: room for the accuracies."""
    places = [table.names.index(name) for name in SETTINGS]
    shared = [k for k in places if len({row[k] for row in table.rows}) == 1] if len(table.rows) > 1 else places
    names, *rows = [[cell for k, cell in enumerate(row) if k not in shared] for row in (table.names, *table.rows)]
    text = ", ".join(f"{table.names[k]} {table.rows[0][k]}" for k in shared)
    return Table(names, rows), f"{'All rows' if len(rows) > 1 else 'The run'}: {text}." if text else ""


def caption(frame: pd.DataFrame) -> list[str]:
    """What the columns of the overview mean, in two paragraphs."""
    radii = [name for name in frame.columns if str(name)[:1].isdigit()]
    asked = f" {NOTHING}: beyond the largest radius asked about." if frame[radii].isna().any(axis=None) else ""
    if not is_accuracy(frame):
        return [
            "Certified share in % of inputs (any class certified with radius >= the column's). "
            "The data has no labels, so nothing is said of whether the classes are right. "
            "Mean radius: of all inputs, 0 where it abstained. Abstained: in % of inputs. "
            f"Shares and radii are rounded down, abstentions up.{asked}"
        ]
    return [
        "Certified accuracy in % of inputs (true class certified with radius >= the column's). "
        "ACR is the average certified radius; ACR top 10% says how much of it, in %, the easiest tenth of the inputs "
        "contributes (10 if all radii were equal). Abstained: in % of inputs. Accuracies and ACR are rounded down, the "
        f"easiest tenth and abstentions up.{asked}",
        f"{WARNING}.",
    ]


def outcomes(runs: Mapping[str, Run]) -> Table:
    """The shares of inputs certified for the true class, for a wrong one, or not at all, with intervals."""
    names = OUTCOMES if all(run.labelled for run in runs.values()) else WITHOUT_LABELS
    return Table(["run", *names], [[name, *_outcomes(run, names)] for name, run in runs.items()])


def _outcomes(run: Run, names: tuple[str, ...]) -> Iterator[str]:
    shares = outcome_shares(run).loc[list(names), ["share", "low", "high"]]
    for outcome, (share, low, high) in zip(names, 100 * shares.to_numpy(dtype=float), strict=True):
        text = share_down(share) if outcome == "certified" else share_up(share)
        yield f"{text} ({down(low, 1)} to {up(high, 1)})"


def shown(name: str, value: Any, *, acr_decimals: int = ACR_DECIMALS) -> str:
    """A cell of the comparison as text, by the name of its column."""
    if isinstance(value, float) and math.isnan(value):
        return NOTHING
    if name in (ACR, MEAN_RADIUS):
        return down(value, acr_decimals)
    if name in FORMATS:
        return FORMATS[name](value)
    return share_down(value) if isinstance(value, float) else str(value)


def routing_table(runs: Mapping[str, Run], found: RoutingAnalysis) -> Table:
    """A row for each dual run."""
    names = [*COLUMNS, *(WITH_EXPERTS if found.diagnoses else [])]
    return Table(names, [_row(name, runs[name], found) for name in found.routings])


def envelope_ratios(found: RoutingAnalysis, radii: Floats) -> Table:
    """What part of the envelope's certified accuracy each diagnosed run reaches, a column a radius."""
    rows = [[name, *_ratios(d, radii)] for name, d in found.diagnoses.items()]
    return Table(["run", *map(exact, radii)], rows)


def _row(name: str, run: Run, found: RoutingAnalysis) -> list[str]:
    frame = found.routings[name]
    cells = [
        name,
        f"{len(frame):,}",
        routes_text(run, frame),
        f"{frame['asked'].mean():.2f}",
        _percent(frame["bottleneck"], share_up),
        _percent(frame["dRs"] < 0, share_up),
    ]
    if not found.diagnoses:
        return cells
    d = found.diagnoses.get(name)
    if d is None:
        return [*cells, *[NOTHING] * len(WITH_EXPERTS)]
    averages = (down(value, ACR_DECIMALS) for value in (acr(d.run), d.oracle.acr, d.envelope.acr))
    return [*cells, _percent(d.frame["dRc"] == 0), up(float(d.frame["dRc"].mean()), ACR_DECIMALS), *averages]


def routes_text(run: Run, frame: pd.DataFrame) -> str:
    """The share of inputs of each top route: '0.25: 41.0, 0.5: 30.2, 1: 28.7'."""
    experts = [short_name(expert) for expert in run.plan.rule["experts"]]
    shares = route_shares(frame, routes=len(experts))
    return ", ".join(f"{name}: {share_down(100 * share)}" for name, share in zip(experts, shares, strict=True))


def in_a_line(name: str, run: Run, found: RoutingAnalysis) -> str:
    """The same for a terminal, where only the main shares fit."""
    frame = found.routings[name]
    parts = [
        f"{name}: top route in % {routes_text(run, frame)}",
        f"the router limits {_percent(frame['bottleneck'], share_up)}% of the radii",
    ]
    if name in found.diagnoses:
        parts.append(f"{_percent(frame['dRc'] == 0)}% go to an expert that no other beats")
    return "; ".join(parts)


def _percent(holds: "pd.Series[bool]", rounded: Callable[[float], str] = share_down) -> str:
    return rounded(100 * float(holds.sum()) / len(holds)) if len(holds) else NOTHING


def _ratios(d: Diagnosis, radii: Floats) -> Iterator[str]:
    for ratio in d.over_envelope(radii):
        yield NOTHING if math.isnan(ratio) else down(ratio, RATIO_DECIMALS)
