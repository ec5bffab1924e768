"""The inputs of a run as columns for the explorer: what was concluded, and every stage's votes.

# J top route; R_sigma distance at which another route could win; R_c radius of J's expert; see `report.routes`
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmax.records.certificate import Stage
from sigmax.records.lines import Record
from sigmax.records.run import Run
from sigmax.report.html.packing import column, floats, millionths, millionths_up
from sigmax.report.routes import is_dual, routing
from sigmax.report.schemes import expert_name, names
from sigmax.report.study import Study

if TYPE_CHECKING:
    import pandas as pd

MOST_CLASSES = 8  # bars of a stage; the votes of all other classes stand together as class -1
ROUTING = ("R_sigma", "R_c", "dRs", "R_best", "dRc")

Data = dict[str, Any]


def inputs(name: str, run: Run, found: Study) -> Data:
    """One entry a column, one value an input, in the order of the records."""
    frame = run.frame()
    return {
        "index": frame["index"].tolist(),
        "label": column(frame["label"].tolist()),
        "predicted": column(frame["predicted"].tolist()),
        "radius": floats(frame["radius"].tolist()),
        "outcome": column(frame["outcome"].tolist()),
        "sigma": column(floats(frame["sigma"].tolist())),
        "draws": column(frame["draws"].tolist()),
        "stages": [_stage(*of, run.plan.rule) for of in _by_stage(run.records)],
        **(_routed(run, found.routings.get(name)) if is_dual(run) else {}),
    }


def _by_stage(records: Sequence[Record]) -> Iterator[tuple[str, int, list[int], list[Stage]]]:
    """Every stage that some record has: its name, how many records there are, which have it, and with what."""
    places: dict[str, list[int]] = {}
    stages: dict[str, list[Stage]] = {}
    for place, record in enumerate(records):
        for stage in record.certificate.stages:
            places.setdefault(stage.name, []).append(place)
            stages.setdefault(stage.name, []).append(stage)
    for name in sorted(stages, key=_order):
        yield name, len(records), places[name], stages[name]


def _order(name: str) -> list[tuple[int, str]]:
    """Router before experts, experts by their number, selection before estimation."""
    ranks = ("router", "noise", "selection", "measure", "estimation", "memory")
    return [(ranks.index(part) if part in ranks else len(ranks), part.zfill(12)) for part in name.split("/")]


def _stage(name: str, records: int, places: list[int], stages: list[Stage], rule: Mapping[str, Any]) -> Data:
    return {
        "name": name,
        **described(name, rule),
        "inputs": places if len(places) < records else None,
        "sigma": column(floats([stage.sigma for stage in stages])),
        "n": column(stage.n for stage in stages),
        "alpha": column(stage.alpha for stage in stages),
        "lower": column(millionths(stage.lower) for stage in stages),
        "upper": column(millionths_up(stage.upper) for stage in stages),
        "radius": column(millionths(stage.radius) for stage in stages),
        "votes": [_votes(stage.counts) for stage in stages],
        "looks": [_looks(stage) for stage in stages] if any(stage.looks for stage in stages) else None,
    }


def _looks(stage: Stage) -> list[list[int]]:
    """The votes so far at every look, where sampling could stop there."""
    return [_votes(counts) for counts in np.cumsum(stage.looks, axis=0).tolist()] if stage.looks else []


def described(name: str, rule: Mapping[str, Any]) -> Data:
    """A stage in words, and what its votes are for where that is not the data's classes: its routes."""
    *parts, last = name.split("/")
    words, routes = list[str](), None
    for part in parts:
        if part in ("router", "named"):  # of a router that names, classes come first and then the expert
            classes = map(str, range(rule.get("classes", 0))) if names(rule) else ()
            routes = [*classes, *(expert_name(expert) for expert in rule.get("experts", ()))]
            words.append("router")
        elif part.startswith("scale-"):
            words.append(f"sigma {rule['sigmas'][-1 - int(part.rpartition('-')[2])]:g}")
        else:
            number = int(part.rpartition("-")[2])
            rule = rule["experts"][number]
            words.append(f"expert {number}")
    return {"title": ", ".join([*words, last]), "routes": routes}


def _votes(counts: Sequence[int]) -> list[int]:
    """Class, votes, class, votes ... of the classes that got any, the most first."""
    voted = sorted(((k, c) for c, k in enumerate(counts) if k), key=lambda pair: (-pair[0], pair[1]))
    shown, rest = voted[:MOST_CLASSES], sum(k for k, _ in voted[MOST_CLASSES:])
    pairs = [*shown, (rest, -1)] if rest else shown
    return [number for k, c in pairs for number in (c, k)]


def _routed(run: Run, known: "pd.DataFrame | None") -> Data:
    """What the router did; a diagnosis knows more of an input, but only of those that the experts' runs share."""
    index = [record.index for record in run.records]
    whole = known if known is not None and len(known) == len(index) else routing(run)
    whole = whole.set_index("index").reindex(index)
    if known is not None:
        more = known.set_index("index")
        whole = more.reindex(index).combine_first(whole)
    return {
        "routes": [expert_name(expert) for expert in run.plan.rule["experts"]],
        "route": column(int(route) for route in whole["route"]),
        "asked": column(int(asked) for asked in whole["asked"]),
        "limited": column(int(limited) for limited in whole["bottleneck"].astype(bool)),
        **{name: column(floats(whole[name].tolist())) for name in ROUTING if name in whole},
    }
