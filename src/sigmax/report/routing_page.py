"""The part of the page on dual runs: where the inputs went, what limits their radii, what is lost."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sigmax.records.rounding import down, share_down, share_up, up
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats
from sigmax.report.comparison import exact
from sigmax.report.diagnosis import Diagnosis, route_shares
from sigmax.report.markdown import ACR_DECIMALS, NOTHING, table
from sigmax.report.schemes import expert_name
from sigmax.report.study import Study

if TYPE_CHECKING:
    import pandas as pd

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
    "expert for each input, chosen with the true class in hand; no router can do more with these experts, up "
    "to chance: the experts' own runs draw other noise than the dual run, so with few inputs or draws a dual run "
    "can lie above it. Envelope: the best expert for each radius, without any router."
)


def routing_section(runs: Mapping[str, Run], found: Study, radii: Floats, *, strict: bool) -> Iterator[str]:
    """Paragraphs, the first of them the heading."""
    yield "## Routing"
    yield "![routing of the inputs](routing.png)"
    yield table(*routing_table(runs, found)).rstrip()
    yield MEANING
    if found.diagnoses:
        yield MEANING_WITH_EXPERTS
        yield "Certified accuracy of the dual run over that of the envelope, on the inputs both hold, rounded down:"
        yield table(
            ["run", *map(exact, radii)],
            [[name, *_ratios(d, radii, strict)] for name, d in found.diagnoses.items()],
        ).rstrip()


def routing_table(runs: Mapping[str, Run], found: Study) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and a row for each dual run."""
    names = [*COLUMNS, *(WITH_EXPERTS if found.diagnoses else [])]
    return names, [_row(name, runs[name], found) for name in found.routings]


def _row(name: str, run: Run, found: Study) -> list[str]:
    frame = found.routings[name]
    cells = [
        name,
        f"{len(frame):,}",
        routes_text(run, frame),
        f"{frame['asked'].mean():.2f}",
        _percent(frame["bottleneck"], share_up),
        _percent(frame["dRs"].dropna() < 0, share_up),
    ]
    if not found.diagnoses:
        return cells
    d = found.diagnoses.get(name)
    if d is None:
        return [*cells, *[NOTHING] * len(WITH_EXPERTS)]
    averages = (down(value, ACR_DECIMALS) for value in (d.acr, d.acr_oracle, d.acr_envelope))
    return [*cells, _percent(d.frame["dRc"] == 0), up(d.mean_dRc, ACR_DECIMALS), *averages]


def routes_text(run: Run, frame: "pd.DataFrame") -> str:
    """The share of inputs of each top route: '0.25: 41.0, 0.5: 30.2, 1: 28.7'."""
    experts = [expert_name(expert) for expert in run.plan.rule["experts"]]
    shares = route_shares(frame, routes=len(experts))
    return ", ".join(f"{name}: {share_down(100 * share)}" for name, share in zip(experts, shares, strict=True))


def in_a_line(name: str, run: Run, found: Study) -> str:
    """The same for a terminal, where only the main shares fit."""
    frame = found.routings[name]
    told = [
        f"{name}: top route in % {routes_text(run, frame)}",
        f"the router limits {_percent(frame['bottleneck'], share_up)}% of the radii",
    ]
    if name in found.diagnoses:
        told.append(f"{_percent(frame['dRc'] == 0)}% go to an expert that no other beats")
    return "; ".join(told)


def _percent(holds: "pd.Series[bool]", rounded: Callable[[float], str] = share_down) -> str:
    return rounded(100 * float(holds.sum()) / len(holds)) if len(holds) else NOTHING


def _ratios(d: Diagnosis, radii: Floats, strict: bool) -> Iterator[str]:
    for ratio in d.over_envelope(radii, strict=strict):
        yield NOTHING if math.isnan(ratio) else down(ratio, RATIO_DECIMALS)
