"""How the router of a dual run shared out the inputs, from the run's own records: no expert's run is needed.

# J top route; R_sigma distance at which another route could win; R_c radius of J's expert for the true class
# dRs = R_sigma - R_c: below 0 the route may change before the expert's class does
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sigmax.certify.dual_parts import ROUTER, expert_name
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.procedure import prefixed, replay
from sigmax.certify.rebuild import rebuild
from sigmax.certify.sampling import remade
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Stage, leading
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.report.runs import Source, load
from sigmax.report.schemes import names

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = "index label route R_sigma R_c radius dRs bottleneck asked".split()


def is_dual(run: Run) -> bool:
    """Whether a router chose among experts in this run."""
    return run.plan.method == "dual" and not names(run.plan.rule)


def dual_rule(plan: Plan) -> DualRule:
    """The rule of a dual run; any other is refused."""
    if plan.method != "dual":
        raise RequestError(f"expected a run of a dual system, got one of the scheme {plan.method!r}")
    rule = rebuild(plan.rule)
    assert isinstance(rule, DualRule)
    if rule.names:
        raise RequestError(
            "this router names classes itself and passes the rest to one expert, so there are no routes to tell "
            "apart; compare its certified accuracy with that of constant noise"
        )
    return rule


def routing(run: Source) -> "pd.DataFrame":
    """One row an input: where the router sent it, and whether the router or the expert limits the radius.

    `route` is J, the route the selection draws picked; `asked` counts the experts that voted. `R_c` is 0 where J's
    expert abstained or certified a wrong class, `radius` where the run did. `bottleneck`: the run certifies less
    than J's expert alone (radius < R_c), since the router lets others in; by the rule "consensus" R_sigma < R_c
    need not mean that. By the rule "min" an undecided router asks none: R_c is then not known (NaN), and the router
    is the bottleneck. With adaptive sampling R_sigma is what the router was made to prove, which ends where it no
    longer matters; where J's expert certifies nothing the router is not asked, and R_sigma not known (NaN).
    """
    import pandas as pd

    run = load(run)
    rule = dual_rule(run.plan)
    return pd.DataFrame([_row(rule, run.plan, record) for record in run.records], columns=COLUMNS)


def _row(rule: DualRule, plan: Plan, record: Record) -> tuple[object, ...]:
    stages = record.certificate.stages
    by_name = {stage.name: stage for stage in stages}
    top, _ = leading(_stage(by_name, rule, record, "selection").counts)
    not_asked = remade(plan.sampling).kind == "adaptive" and prefixed(ROUTER, "estimation") not in by_name
    reach = math.nan if not_asked else _stage(by_name, rule, record, "estimation").radius or 0.0
    in_charge = expert_certificate(rule, plan, record, top)
    own = math.nan if in_charge is None else in_charge.radius if in_charge.predicted == record.label else 0.0
    final = record.certificate.radius if record.correct else 0.0
    limited = in_charge is None or final < own
    return record.index, record.label, top, reach, own, final, reach - own, limited, experts_asked(stages)


def _stage(by_name: Mapping[str, Stage], rule: DualRule, record: Record, name: str) -> Stage:
    stage = by_name.get(prefixed(ROUTER, name))
    if stage is None or len(stage.counts) != rule.router.classes:
        raise RequestError(
            f"input {record.index} has no stage 'router/{name}' with votes on {rule.router.classes} routes; "
            "run `sigmax verify` on the file"
        )
    return stage


def experts_asked(stages: tuple[Stage, ...]) -> int:
    """How many experts a dual record holds votes of."""
    return len({stage.name.split("/")[0] for stage in stages} - {ROUTER})


def expert_certificate(rule: DualRule, plan: Plan, record: Record, route: int) -> Certificate | None:
    """What the counts of the expert in charge prove by themselves, at its part of alpha; None if not asked."""
    under = prefixed(expert_name(route), "")
    stages = [
        replace(stage, name=stage.name.removeprefix(under))
        for stage in record.certificate.stages
        if stage.name.startswith(under)
    ]
    if not stages:
        return None
    _, alphas = rule.grants(plan.alpha)
    sampling = remade(plan.sampling)
    return replay(
        rule.experts[route].certifying(n0=plan.n0 or 0, n=plan.n, alpha=alphas[route], sampling=sampling), stages
    )
