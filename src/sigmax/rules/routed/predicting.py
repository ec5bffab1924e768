"""Dual smoothing predicts: the class of the expert in charge, or of all that may be. No torch."""

from collections.abc import Sequence

from sigmax import bounds
from sigmax.bounds import Budget, Spent
from sigmax.rules.certificate import Outcome, Prediction, Role, Stage
from sigmax.rules.procedure import Counts, Procedure, Rule, votes, within
from sigmax.rules.routed.parts import ROUTER, predict_expert, router_request
from sigmax.rules.smoothed import SmoothedRule

Experts = tuple[Rule, ...]


def minimum(router: SmoothedRule, experts: Experts, *, n: int, alpha: float) -> Procedure[Prediction]:
    """The published procedure: PREDICT the route at alpha/2, then the class at alpha/2; abstain if either does."""
    half = Budget(alpha).share(2)
    route = yield from within(ROUTER, router.predicting(n=n, alpha=half))
    if route.predicted is None:
        return _whole(alpha, [route], Outcome.ROUTER_UNDECIDED, None, route.p_value)
    expert = yield from predict_expert(experts, route.predicted, n=n, alpha=half)
    p_value = max(route.p_value, expert.p_value)
    return _whole(alpha, [route, expert], expert.outcome, expert.predicted, p_value)


def consensus(router: SmoothedRule, experts: Experts, *, n: int, alpha: float) -> Procedure[Prediction]:
    """The class that every expert predicts who may be in charge of the input.

    Wrong with probability at most alpha: the true route t is fixed, if unknown. It is ruled out with probability at
    most alpha/2 (`routes_left`); else the class returned is the one that expert t predicted, which is wrong with
    probability at most alpha/2. So each expert may use that half by itself: only one of them is the one in charge.
    """
    half = Budget(alpha).share(2)
    counts = yield from votes(router_request(router, Role.PREDICTION, n))
    routes, excluded_at = routes_left(counts, half)
    asked: list[Prediction] = []
    for j in routes:
        asked.append((yield from predict_expert(experts, j, n=n, alpha=half)))
        if asked[-1].predicted is None or asked[-1].predicted != asked[0].predicted:
            break
    stage = Stage(ROUTER, Role.PREDICTION, router.sigma, counts, sum(counts), half)
    parts = [Prediction(None, excluded_at, Outcome.PREDICTED, half, (stage,), (Spent(ROUTER, half),)), *asked]
    if asked[-1].predicted != asked[0].predicted:
        return _whole(alpha, parts, Outcome.EXPERTS_DISAGREE, None, 1.0)
    return _whole(alpha, parts, asked[-1].outcome, asked[-1].predicted, max(part.p_value for part in parts))


def routes_left(counts: Counts, alpha: float) -> tuple[list[int], float]:
    """The routes that may be the true one, most votes first, and the level at which the last of the others went.

    The true route t is missing with probability at most alpha: it is ruled out only where the leading route i has
    so many more votes that a one-sided binomial test of the two gives at most alpha / (K - 1); for each of the
    K - 1 possible i that happens with at most this probability, because q_t >= q_i.
    """
    falling = sorted(range(len(counts)), key=lambda j: (-counts[j], j))
    top, others = counts[falling[0]], len(counts) - 1
    # Half of the two-sided p-value is the one-sided one; times K - 1 it stands beside alpha.
    level = {j: bounds.two_sided_p_value(top, top + counts[j]) / 2 * others for j in falling[1:]}
    left = [j for j in falling if level.get(j, 1.0) > alpha]
    return left, max((p for j, p in level.items() if j not in left), default=0.0)


def _whole(
    alpha: float, parts: Sequence[Prediction], outcome: Outcome, predicted: int | None, p_value: float
) -> Prediction:
    """The parts' stages under one claim; `p_value` is compared with half of alpha in each part."""
    stages = tuple(stage for part in parts for stage in part.stages)
    ledger = (*parts[0].ledger, Spent("the expert in charge", Budget(alpha).share(2)))
    return Prediction(predicted, min(1.0, 2 * p_value), outcome, alpha, stages, ledger)
