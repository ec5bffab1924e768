"""A router that names classes or passes predicts: what it names, or what the expert says. No torch."""

from functools import partial

from sigmax import bounds
from sigmax.bounds import Budget, Spent
from sigmax.certify.dual_parts import ROUTER, ask_router, predict_expert
from sigmax.certify.naming import EXPERT
from sigmax.certify.procedure import Counts, Procedure, Rule, prefixed, votes
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Outcome, Prediction, Stage


def predicting(router: SmoothedRule, expert: Rule, *, n: int, alpha: float, blind: bool) -> Procedure[Prediction]:
    """The class on which all who may be in charge agree; `blind`: by the rule "min", which wants one in charge.

    Wrong with probability at most alpha: who is truly in charge is ruled out with probability at most alpha/2
    (`left`); else the class returned is theirs, or what the expert predicts, which is wrong with probability at
    most alpha/2.
    """
    half = Budget(alpha).share(2)
    counts = yield from votes(ask_router(router, "prediction", n))
    named, passes, level = left(counts, half)
    stage = Stage(prefixed(ROUTER, "prediction"), router.sigma, counts, sum(counts), half)
    whole = partial(_whole, alpha, stage)
    if len(named) > 1 or (blind and named and passes):
        return whole(None, Outcome.ROUTER_UNDECIDED if blind else Outcome.NAME_UNDECIDED)
    if not passes:
        return whole(None, Outcome.PREDICTED, (named[0], level))
    below = yield from predict_expert((expert,), EXPERT, n=n, alpha=half)
    if below.predicted is None or (named and below.predicted != named[0]):
        return whole(below, Outcome.NAME_UNDECIDED if below.predicted is not None else below.outcome)
    return whole(below, Outcome.PREDICTED, (below.predicted, max(level, below.p_value)))


def left(counts: Counts, alpha: float) -> tuple[list[int], bool, float]:
    """The classes that may be the one named, whether the router may pass, and the level at which the others went.

    Who is in charge is missing with probability at most alpha. A class c that is named has q_c > 1/2, and is ruled
    out where its votes are so few that a one-sided binomial test of 1/2 gives at most alpha. If none is named all
    shares are at most 1/2, and passing is ruled out where for one of the K classes the other tail is at most
    alpha / K.
    """
    *names, _ = counts
    n = sum(counts)
    # Half of the two-sided p-value is the one-sided one of the tail that the votes are in.
    tail = [bounds.two_sided_p_value(k, n) / 2 for k in names]
    low = {c: p for c, (k, p) in enumerate(zip(names, tail, strict=True)) if 2 * k < n and p <= alpha}
    high = [p * len(names) for k, p in zip(names, tail, strict=True) if 2 * k > n and p * len(names) <= alpha]
    return [c for c in range(len(names)) if c not in low], not high, max([*low.values(), *high], default=0.0)


def _whole(
    alpha: float,
    stage: Stage,
    below: Prediction | None,
    outcome: Outcome,
    claim: tuple[int | None, float] = (None, 1.0),
) -> Prediction:
    """The parts' stages under one claim; `p_value` is compared with half of alpha in each part."""
    half = Budget(alpha).share(2)
    stages = (stage, *(below.stages if below is not None else ()))
    ledger = (Spent(ROUTER, half), Spent("the expert in charge", half))
    predicted, p_value = claim
    return Prediction(predicted, min(1.0, 2 * p_value), outcome, alpha, stages, ledger)
