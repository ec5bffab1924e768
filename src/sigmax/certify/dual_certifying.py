"""Dual smoothing certifies: what votes on the route and votes on the class prove together. No torch.

# q_j the router's share of route j, a its top route; L <= q_a and q_j <= U_j bounds; sigma_e the router's noise
# D_j = sigma_e/2 * (Phi^-1(L) - Phi^-1(U_j)) distance below which route j cannot win; R_j radius of expert j
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from math import inf

from sigmax import radius
from sigmax.bounds import Budget, Spent, table
from sigmax.certify.dual_parts import ROUTER, Grants, ask_router, certify_expert, expert_name
from sigmax.certify.procedure import (
    Answer,
    Counts,
    Procedure,
    Question,
    Rule,
    in_step,
    prefixed,
    votes,
    within,
)
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Certificate, Outcome, Stage, leading

Experts = tuple[Rule, ...]


def minimum(
    router: SmoothedRule, experts: Experts, grants: Grants, *, n0: int, n: int, alpha: float
) -> Procedure[Certificate]:
    """The published procedure: the route is constant within R_sigma, the expert's class within R_c.

    The radius is the smaller of the two. Sound at alpha: the route is wrong with probability at most its grant;
    given the route, which other draws picked, the expert's claim is wrong with probability at most its own.
    Source: Sun et al. (2026), Theorem 4.2 and Sec. 5.1.
    """
    for_router, for_expert = grants
    route = yield from within(ROUTER, router.certifying(n0=n0, n=n, alpha=for_router))
    if route.predicted is None:
        return whole(alpha, [route], Outcome.ROUTER_UNDECIDED)
    top = route.predicted
    expert = yield from certify_expert(experts, top, n0=n0, n=n, alpha=for_expert[top])
    return whole(alpha, [route, expert], expert.outcome, expert.predicted, min(route.radius, expert.radius))


def consensus(
    router: SmoothedRule,
    experts: Experts,
    grants: Grants,
    *,
    n0: int,
    n: int,
    alpha: float,
    sharing: frozenset[int] = frozenset(),
) -> Procedure[Certificate]:
    """Whichever expert is in charge within the radius, it gives the same class there (`radius.routed`).

    Sound at alpha: every bound that may be used has its grant, asked for or not, so by the union bound all of them
    hold together with probability at least 1 - alpha, and then the theorem applies. For that the bounds need not be
    independent: an expert in charge that is `sharing` the router's denoiser and sigma votes on the router's draws.
    """
    for_router, for_expert = grants
    picks = yield from votes(ask_router(router, "selection", n0))
    top, _ = leading(picks)
    ask, found = ask_router(router, "estimation", n), dict[int, Certificate]()
    if top in sharing:
        expert = certify_expert(experts, top, n0=n0, n=n, alpha=for_expert[top])
        counts, found[top] = yield from in_step(ask, expert)
    else:
        counts = yield from votes(ask)
    reach, estimation = distances(router, top, counts, for_router)
    route = _route(picks, estimation, for_router)
    asked = yield from _in_reach(experts, top, reach, found, n0=n0, n=n, alphas=for_expert)
    proved = routed(reach, asked, range(len(reach)))
    unused = [
        Spent(expert_name(j), for_expert[j]) for j, expert in enumerate(experts) if expert.pays and j not in asked
    ]
    outcome, predicted = asked[top].outcome, asked[top].predicted
    if predicted is not None and not proved:
        outcome, predicted = Outcome.EXPERTS_DISAGREE, None
    return whole(alpha, [route, *asked.values()], outcome, predicted, proved, unused=unused)


def distances(router: SmoothedRule, top: int, counts: Counts, alpha: float) -> tuple[tuple[float, ...], Stage]:
    """D_j of every route (0 of `top`), from votes drawn after `top` was fixed, and the stage that proves them.

    With probability at least 1 - alpha no route j wins at a distance below D_j. Two routes need one bound, since
    q_j = 1 - q_a; more need one each, and alpha is shared among them.
    """
    n = sum(counts)
    lower, rivals = route_bounds(top, counts, n, alpha)
    reach = reaches(router, top, lower, rivals)
    nearest = min(rivals, key=lambda j: (reach[j], -(rivals[j] or 0.0)))
    name = prefixed(ROUTER, "estimation")
    return reach, Stage(name, router.sigma, counts, n, alpha, lower, rivals[nearest], reach[nearest])


def route_bounds(top: int, counts: Counts, n: int, alpha: float) -> tuple[float, dict[int, float | None]]:
    """L of the top route, and U of each other where there is more than one; alpha is shared among them all."""
    several = len(counts) > 2
    each = Budget(alpha).share(len(counts)) if several else alpha
    rivals = {j: table.upper(k, n, each) if several else None for j, k in enumerate(counts) if j != top}
    return table.lower(counts[top], n, each), rivals


def reaches(router: SmoothedRule, top: int, lower: float, rivals: Mapping[int, float | None]) -> tuple[float, ...]:
    """D_j of every route from its bounds, in the order of the routes; 0 of `top`."""
    distance = {j: radius.gaussian(router.noise, lower, upper) for j, upper in rivals.items()}
    return tuple(distance.get(j, 0.0) for j in range(len(rivals) + 1))


def _in_reach(
    experts: Experts,
    top: int,
    reach: Sequence[float],
    found: dict[int, Certificate],
    *,
    n0: int,
    n: int,
    alphas: Sequence[float],
) -> Generator[Question, Answer, dict[int, Certificate]]:
    """Certificates of the experts that matter, in the order asked: nearest first, none once one disagrees.

    `found` may hold that of `top` already, and is added to.
    """
    limit = inf
    for j in sorted(range(len(reach)), key=lambda j: (reach[j], j != top)):
        if reach[j] >= limit:  # it cannot be in charge where the others still hold
            break
        if j not in found:
            found[j] = yield from certify_expert(experts, j, n0=n0, n=n, alpha=alphas[j])
        limit = routed(reach, found, found)
    return found


def routed(reach: Sequence[float], found: Mapping[int, Certificate], routes: Iterable[int]) -> float:
    """The radius if only `routes` existed; an expert that was not asked counts as one that disagrees."""
    considered = [(reach[j], found.get(j)) for j in routes]
    return radius.routed(
        [distance for distance, _ in considered],
        [expert.radius if expert else 0.0 for _, expert in considered],
        [expert.predicted if expert else None for _, expert in considered],
    )


def _route(picks: Counts, estimation: Stage, alpha: float) -> Certificate:
    """The router's part of the certificate."""
    selection = Stage(prefixed(ROUTER, "selection"), estimation.sigma, picks, sum(picks))
    stages, ledger = (selection, estimation), (Spent(ROUTER, alpha),)
    return Certificate(None, estimation.radius or 0.0, Outcome.CERTIFIED, alpha, stages, ledger)


def whole(
    alpha: float,
    parts: Sequence[Certificate],
    outcome: Outcome,
    predicted: int | None = None,
    proved: float = 0.0,
    *,
    unused: Sequence[Spent] = (),
) -> Certificate:
    """The parts' stages and payments under one claim."""
    stages = tuple(stage for part in parts for stage in part.stages)
    ledger = (*(entry for part in parts for entry in part.ledger), *unused)
    return Certificate(predicted, proved, outcome, alpha, stages, ledger)
