"""A cascade predicts: the class that it answers at the input itself. No torch.

# k of n votes; q_c share of class c; t threshold; K classes
"""

from functools import lru_cache
from math import ceil, log

from sigmax.bounds import Budget, Spent, fixed
from sigmax.errors import RequestError
from sigmax.rules.cascade.level import Level
from sigmax.rules.certificate import Outcome, Prediction, Role, Stage
from sigmax.rules.procedure import Counts, Procedure, VoteRequest, votes

_KEPT = 2**14  # tails: every class of every prediction asks for one, and counts of few samples come again
tail_above, tail_below = lru_cache(_KEPT)(fixed.tail_above), lru_cache(_KEPT)(fixed.tail_below)


def predicting(level: Level, below: Procedure[Prediction], *, n: int, alpha: float) -> Procedure[Prediction]:
    """The class that the level answers, or that is predicted below it; abstain while both are possible and differ.

    Wrong with probability at most alpha: what the level truly does is ruled out with probability at most alpha/2
    (`candidates`); else the class returned is its answer, or the prediction below, which is wrong with probability at
    most alpha/2.
    """
    half = Budget(alpha).share(2)
    rule = level.rule
    counts = yield from votes(VoteRequest(level.part, Role.PREDICTION, rule.columns, rule.noise, n))
    answers, defers, p_value = candidates(level, counts, half)
    stage = Stage(level.part, Role.PREDICTION, rule.sigma, counts, sum(counts), half)
    if len(answers) > 1:
        return _whole(alpha, stage, None, Outcome.LEVEL_UNDECIDED)
    if not defers:
        return _whole(alpha, stage, None, Outcome.PREDICTED, (answers[0], p_value))
    found = yield from below
    if found.predicted is None:
        return _whole(alpha, stage, found, found.outcome)
    if answers and found.predicted != answers[0]:
        return _whole(alpha, stage, found, Outcome.LEVEL_UNDECIDED)
    return _whole(alpha, stage, found, Outcome.PREDICTED, (found.predicted, max(p_value, found.p_value)))


def candidates(level: Level, counts: Counts, alpha: float) -> tuple[list[int], bool, float]:
    """The classes that may be the level's answer, whether it may defer, and the p-value at which the others went.

    What the level truly does is missing with probability at most alpha. A class that it answers has q_c > t, and is
    ruled out where its votes are so few that a one-sided binomial test of t gives at most alpha. If it defers, all
    shares are at most t, and deferring is ruled out where for one of the K classes the other tail is at most
    alpha / K.
    """
    own, n, t = counts[: level.rule.classes], sum(counts), level.threshold
    low = {c: p for c, k in enumerate(own) if k < t * n and (p := tail_below(k, n, t)) <= alpha}
    high = [p * len(own) for k in own if k > t * n and (p := tail_above(k, n, t)) * len(own) <= alpha]
    return [c for c in range(len(own)) if c not in low], not high, max([*low.values(), *high], default=0.0)


def check(level: Level, *, n: int, alpha: float) -> None:
    """Raise unless n unanimous samples would show that the level answers."""
    classes, t = level.rule.classes, level.threshold
    if tail_above(n, n, t) * classes > alpha:
        fewest = ceil(log(alpha / classes) / log(t) * (1 + 1e-9))
        raise RequestError(
            f"n={n} samples can never predict with threshold {t:g} and {classes} classes, even if all agree; "
            f"use n >= {fewest} or a larger alpha"
        )


def _whole(
    alpha: float,
    stage: Stage,
    below: Prediction | None,
    outcome: Outcome,
    claim: tuple[int | None, float] = (None, 1.0),
) -> Prediction:
    """The parts' stages under one claim; its p-value is compared with half of alpha in each part."""
    predicted, p_value = claim
    half = Budget(alpha).share(2)
    stages = (stage, *(below.stages if below is not None else ()))
    ledger = (Spent(stage.part, half), Spent(f"below {stage.part}", half))
    return Prediction(predicted, min(1.0, 2 * p_value), outcome, alpha, stages, ledger)
