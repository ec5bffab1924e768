"""How the router of a dual run shared out the inputs, from the run's own records: no expert's run is needed.

# J top route; R_sigma distance at which another route could win; R_c radius of J's expert for the true class
# dRs = R_sigma - R_c: below 0 the route may change before the expert's class does
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from sigmax.errors import RequestError
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.report.runs import Source, load
from sigmax.report.schemes import voting_parts
from sigmax.rules.certificate import Certificate, Role, Stage, leading
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.routed.parts import ROUTER, certify_expert, expert_name
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import remade

COLUMNS = "index label route R_sigma R_c radius dRs bottleneck asked".split()


def is_dual(run: Run) -> bool:
    """Whether a router chose among experts in this run."""
    return not run.plan.imported and isinstance(rebuild(run.plan.rule), DualRule)


def dual_rule(plan: Plan) -> DualRule:
    """The rule of a dual run; any other is refused."""
    rule = None if plan.imported else rebuild(plan.rule)
    if not isinstance(rule, DualRule):
        raise RequestError(f"expected a run of a dual system, got one of the scheme {plan.method!r}")
    return rule


def routing(run: Source) -> pd.DataFrame:
    """One row an input: where the router sent it, and whether the router or the expert limits the radius.

    `route` is J, the route the selection samples picked; `asked` counts the experts that voted. `R_c` is 0 where J's
    expert abstained or certified a wrong class, `radius` where the run did; without labels no class is wrong.
    `bottleneck`: the run certifies less than J's expert alone (radius < R_c), since the router lets others in. Where
    J's expert certifies nothing the router may not be asked, and R_sigma is NaN. With adaptive sampling R_sigma is what
    the router had to prove.
    """
    run = load(run)
    rule = dual_rule(run.plan)
    experts = [_parts_of_expert(rule, j) for j in range(len(rule.experts))]
    return pd.DataFrame([_row(rule, run.plan, record, experts) for record in run.records], columns=COLUMNS)


def _parts_of_expert(rule: DualRule, route: int) -> set[str]:
    """The paths of an expert and of its own parts in the records."""
    return {part.path for part in voting_parts(rule.experts[route].describe(), expert_name(route))}


def _row(rule: DualRule, plan: Plan, record: Record, experts: Sequence[set[str]]) -> tuple[object, ...]:
    selection = router_stage(rule, record, Role.SELECTION)
    if selection is None:
        raise RequestError(f"input {record.index} has no votes that pick a route; run `sigmax verify` on the file")
    top, _ = leading(selection.counts)
    estimation = router_stage(rule, record, Role.ESTIMATION)
    reach = math.nan if estimation is None else estimation.radius or 0.0
    alone = _expert_alone(rule, plan, record, top)
    own = alone.radius if replace(record, certificate=alone).counts else 0.0
    final = record.certificate.radius if record.counts else 0.0
    asked = sum(not parts.isdisjoint(stage.part for stage in record.certificate.stages) for parts in experts)
    return record.index, record.label, top, reach, own, final, reach - own, final < own, asked


def router_stage(rule: DualRule, record: Record, role: Role) -> Stage | None:
    """The router's votes in this role; None where it was not asked."""
    for stage in record.certificate.stages:
        if stage.part == ROUTER and stage.role is role:
            if len(stage.counts) != rule.router.classes:
                raise RequestError(
                    f"input {record.index}: the router has {rule.router.classes} routes, but its votes are on "
                    f"{len(stage.counts)}; run `sigmax verify` on the file"
                )
            return stage
    return None


def _expert_alone(rule: DualRule, plan: Plan, record: Record, route: int) -> Certificate:
    """What the counts of the route's expert prove by themselves, at its part of alpha."""
    alpha, sampling = rule.alpha_split(plan.alpha).experts[route], remade(plan.sampling)
    procedure = certify_expert(rule.experts, route, n0=plan.n0 or 0, n=plan.n, alpha=alpha, sampling=sampling)
    return replay(procedure, record.certificate.stages)
