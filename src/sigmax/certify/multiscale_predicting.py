"""A cascade predicts: the class it names at the input itself. No torch.

# k of n votes; t threshold; K scales; a = alpha / (2K - 1)

Wrong with probability at most alpha. Scale s names a class that has no share above t with probability at most a:
the class was picked by the votes that show it, but of shares that are all at most t only two can matter (the tail
of a binomial is convex in p up to there, so that its sum is largest for shares t and 1 - t), and each gets a/2.
Scale j is passed although some class but the one returned has more than t with probability at most a: that class is
one and fixed, and its votes are at most those counted. There are K tests of the first kind, K - 1 of the second.
"""

from collections.abc import Sequence

from scipy.special import betainc, betaincc

from sigmax import bounds
from sigmax.bounds import Budget, Spent, table
from sigmax.certify.procedure import Ask, Counts, Procedure, prefixed, votes
from sigmax.certify.scale import Scale, scale_name
from sigmax.errors import RequestError
from sigmax.records.certificate import Outcome, Prediction, Stage, leading


def predicting(scales: Sequence[Scale], *, n: int, alpha: float) -> Procedure[Prediction]:
    """Scale after scale, until one names a class; abstain where an earlier one may name another."""
    tests = 2 * len(scales) - 1
    share = Budget(alpha).share(tests)
    seen: list[Counts] = []
    for s, scale in enumerate(scales):
        stage = prefixed(scale_name(s), "prediction")
        seen.append((yield from votes(Ask(prefixed(scale_name(s), "base"), stage, scale.classes, scale.sigma, n))))
        if _names(scale, seen[-1], share):
            break
    final = scales[len(seen) - 1]
    top, _ = leading(seen[-1])
    named = _names(final, seen[-1], share)
    passed = list(zip(scales, seen[:-1], strict=False))
    clear = all(table.upper(_rival(c, top), n, share) < scale.threshold for scale, c in passed)
    p_values = [_naming_p(final, seen[-1]), *(_passing_p(scale, c, top) for scale, c in passed)]
    outcome = Outcome.PREDICTED if named and clear else Outcome.SCALE_UNDECIDED if named else Outcome.NO_SCALE
    return Prediction(
        predicted=top if named and clear else None,
        p_value=min(1.0, tests * max(p_values)),
        outcome=outcome,
        alpha=alpha,
        stages=tuple(
            Stage(prefixed(scale_name(s), "prediction"), scale.sigma, c, n, share)
            for s, (scale, c) in enumerate(zip(scales, seen, strict=False))
        ),
        ledger=tuple(Spent(f"test {i + 1} of {tests}", share) for i in range(tests)),
    )


def check(scales: Sequence[Scale], *, n: int, alpha: float) -> None:
    """Raise unless n unanimous draws would be enough at every scale."""
    share = Budget(alpha).share(2 * len(scales) - 1)
    for s, scale in enumerate(scales):
        if bounds.lower(n, n, share / 2) <= scale.threshold:
            raise RequestError(
                f"n={n} draws can never predict at {scale_name(s)} (threshold {scale.threshold:g}), which gets "
                f"{share:.3g} of alpha={alpha:g}; use n >= {scale.fewest_draws(share / 2)} or a larger alpha"
            )


def _names(scale: Scale, counts: Counts, alpha: float) -> bool:
    return table.lower(max(counts), sum(counts), alpha / 2) > scale.threshold


def _rival(counts: Counts, top: int) -> int:
    return max(k for c, k in enumerate(counts) if c != top)


def _naming_p(scale: Scale, counts: Counts) -> float:
    """The alpha at which the scale would just name its leading class."""
    k, n = max(counts), sum(counts)
    return min(1.0, 2 * float(betainc(k, n - k + 1, scale.threshold)))


def _passing_p(scale: Scale, counts: Counts, top: int) -> float:
    """The alpha at which the scale would just be passed."""
    k, n = _rival(counts, top), sum(counts)
    return float(betaincc(k + 1, n - k, scale.threshold)) if k < n else 1.0
