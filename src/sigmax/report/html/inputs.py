"""The inputs of a run as columns for the explorer: what was concluded, and every stage's votes.

# J top route; R_sigma distance at which another route could win; R_c radius of J's expert; see `report.routes`
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, compress
from operator import add
from typing import Any

import pandas as pd

from sigmax.records.run import Run
from sigmax.report.compare.diagnosis import RoutingAnalysis
from sigmax.report.html.packing import column, floats, millionths, millionths_up, parameter
from sigmax.report.metrics.routes import is_dual, routing
from sigmax.report.runs import sigma_by_record
from sigmax.report.schemes import part_title, short_name, voting_parts
from sigmax.rules.certificate import Role, Stage

MOST_CLASSES = 8  # bars of a stage; the votes of all other classes stand together as class -1
ABSTAINED = -1
ROUTING = ("R_sigma", "R_c", "dRs", "R_best", "dRc")

Data = dict[str, Any]


def inputs(name: str, run: Run, found: RoutingAnalysis) -> Data:
    """One entry a column, one value an input, in the order of the records."""
    certificates = [record.certificate for record in run.records]
    titles = {stage.name: stage_title(stage) for c in certificates for stage in c.stages}
    return {
        "index": [record.index for record in run.records],
        "label": column(record.label for record in run.records),
        "predicted": column(ABSTAINED if c.predicted is None else c.predicted for c in certificates),
        "radius": floats([c.radius for c in certificates], given=run.plan.imported),
        "outcome": column(c.outcome.name.lower() for c in certificates),
        "sigma": column(map(parameter, sigma_by_record(run))),
        "samples": column(c.samples for c in certificates),
        "answered": column(part_title(c.answered_by or "") for c in certificates),
        "limited": column(titles.get(c.limited_by or "") for c in certificates),
        "stages": list(_stages(run)),
        **(_routed(run, found.routings.get(name)) if is_dual(run) else {}),
    }


def stage_title(stage: Stage) -> str:
    """A stage as text: 'expert 1, level 0, estimation'."""
    return ", ".join(filter(None, (part_title(stage.part), str(stage.role))))


def _stages(run: Run) -> Iterator[Data]:
    """Every stage that some record has, in the order they are asked, with the values of the records that have it."""
    found: dict[str, tuple[list[int], list[Stage]]] = {}
    for place, record in enumerate(run.records):
        for stage in record.certificate.stages:
            places, stages = found.setdefault(stage.name, ([], []))
            places.append(place)
            stages.append(stage)
    known = {} if run.plan.imported else {part.path: part for part in voting_parts(run.plan.rule)}
    parts, roles = list(known), list(Role)

    def order(stage: Stage) -> tuple[int, int]:
        """As the scheme has its parts; those of a scheme from elsewhere come last, as they were met."""
        return parts.index(stage.part) if stage.part in known else len(parts), roles.index(stage.role)

    for places, stages in sorted(found.values(), key=lambda of: order(of[1][0])):
        part = known.get(stages[0].part)
        yield {
            **_stage(stages),
            "inputs": places if len(places) < len(run.records) else None,
            "routes": part.routes if part else None,
            "defer": run.plan.rule["classes"] if part and part.defers else None,
        }


def _stage(stages: list[Stage]) -> Data:
    return {
        "name": stages[0].name,
        "title": stage_title(stages[0]),
        "part": part_title(stages[0].part),
        "role": str(stages[0].role),
        "sigma": column(parameter(stage.sigma) for stage in stages),
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
    return [_votes(counts) for counts in accumulate(stage.looks, lambda sums, look: tuple(map(add, sums, look)))]


def _votes(counts: Sequence[int]) -> list[int]:
    """Class, votes, class, votes ... of the classes that got any, the most first."""
    voted = sorted(compress(range(len(counts)), counts), key=counts.__getitem__, reverse=True)
    pairs = [(c, counts[c]) for c in voted[:MOST_CLASSES]]
    rest = sum(map(counts.__getitem__, voted[MOST_CLASSES:]))
    return [number for pair in [*pairs, (-1, rest)] if pair[1] for number in pair]


def _routed(run: Run, known: pd.DataFrame | None) -> Data:
    """What the router did; a diagnosis knows more of an input, but only of those that the experts' runs share."""
    index = [record.index for record in run.records]
    whole = known if known is not None and len(known) == len(index) else routing(run)
    whole = whole.set_index("index").reindex(index)
    if known is not None:
        more = known.set_index("index")
        whole = more.reindex(index).combine_first(whole)
    return {
        "routes": [short_name(expert) for expert in run.plan.rule["experts"]],
        "route": column(int(route) for route in whole["route"]),
        "asked": column(int(asked) for asked in whole["asked"]),
        "bottleneck": column(int(limits) for limits in whole["bottleneck"].astype(bool)),
        **{name: column(floats(whole[name].tolist())) for name in ROUTING if name in whole},
    }
