"""Dual smoothing whose router names the class itself, or passes the input to the one expert below it. No torch.

# K classes; q_j the router's shares: outcome c < K names the class c, outcome K passes. A class is named where it
# has more than half of the votes, and everywhere else the expert is in charge. A the class picked, L <= q_A;
# U(c) >= q_j of every class j but c; B the expert's class, R_B how far it is certified

    R = sigma * Phi^-1(L)         within it A is named
    W(c) = -sigma * Phi^-1(U(c))  within it no class but c is named

So the class is A within R, and if B = A even within max(R, min(W(A), R_B)); where the router passed, it is B within
min(W(B), R_B). The proof is in `radius.named`.

U(c) = upper(max of k_j, j not c). The class of the largest share but c has no more votes than that maximum, so for
a c that was fixed before these votes U(c) is one bound. Where the router passes, c is the expert's: U(c) then fails
only if upper(k_j) does for one of the two classes of the truly largest shares (the second of them is the largest
but c if c is the first, else the first is), so two payments serve every c, even one that these votes helped pick.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from sigmax import radius
from sigmax.bounds import Spent, table
from sigmax.certify.dual_parts import NAMED, ROUTER, Grants, ask_router, certify_expert, expert_name
from sigmax.certify.procedure import Answer, Counts, Procedure, Question, Rule, prefixed, votes
from sigmax.certify.sampling import Poll, Sampling, hopeful
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Certificate, Outcome, Stage, leading

EXPERT = 0  # its place among the experts: it is the only one


def certifying(
    router: SmoothedRule,
    expert: Rule,
    grants: Grants,
    *,
    n0: int,
    n: int,
    alpha: float,
    sampling: Sampling,
    blind: bool = False,
) -> Procedure[Certificate]:
    """Votes on the names, then the expert, then more votes: each only as far as they can matter.

    `blind`: by the rule "min", which does not look at what the expert says when it asks who is in charge.
    Sound at alpha: every bound that may be used has its grant, at every look, so all of them hold together with
    probability at least 1 - alpha, whatever was asked first.
    """
    for_router, (for_expert, *_) = grants
    picks = yield from votes(ask_router(router, "selection", n0))
    names = Names(router, picked(picks), n=n, alpha=for_router, sampling=sampling, blind=blind)
    furthest = expert.largest_radius(n=n, alpha=for_expert, sampling=sampling)
    yield from names.more()
    while not names.settled:
        yield from names.more()
    below: Certificate | None = None
    if names.needs(furthest):
        asked = sampling.capped(names.may_be_unnamed(names.first))
        below = yield from certify_expert((expert,), EXPERT, n0=n0, n=n, alpha=for_expert, sampling=asked)
        while not names.poll.exhausted and not names.enough(below):
            yield from names.more()
    unused = [] if below is not None or not expert.pays else [Spent(expert_name(EXPERT), for_expert)]
    return _concluded(names, picks, below, alpha=alpha, unused=unused)


def picked(picks: Counts) -> int | None:
    """The class that most votes of the selection name; None where there is none, and the router is to pass."""
    top, _ = leading(picks)
    return top if top != len(picks) - 1 and 2 * picks[top] > sum(picks) else None


@dataclass(frozen=True)
class Pay:
    """What the router's bounds may spend: L, and each bound behind U."""

    naming: float
    rivals: float

    @classmethod
    def of(cls, alpha: float, *, picked: bool, blind: bool) -> "Pay":
        """Half for L and half for U where a class was picked; where not, half for each of the two bounds behind U.

        A blind rule needs L alone if a class was picked, and if not U of all classes alone: one bound.
        """
        if blind:
            return cls(alpha, 0.0) if picked else cls(0.0, alpha)
        return cls(alpha / 2 if picked else 0.0, alpha / 2)


class Names:
    """The router's votes, look by look, and what they prove: bounds of all looks hold together."""

    def __init__(
        self, router: SmoothedRule, label: int | None, *, n: int, alpha: float, sampling: Sampling, blind: bool
    ) -> None:
        self.router, self.n, self.sampling, self.blind, self.alpha = router, n, sampling, blind, alpha
        self.passing = router.classes - 1
        self.picked = label
        self.pay = Pay.of(alpha, picked=self.picked is not None, blind=blind)
        part = ROUTER if self.picked is None else NAMED
        self.poll = Poll(ask_router(router, "estimation", n, part=part), sampling.schedule(n, alpha))

    def more(self) -> Generator[Question, Answer, None]:
        """The next look."""
        yield from self.poll.more()

    @property
    def first(self) -> int:
        """The class that may be certified, as far as the router can tell."""
        return leading(self.poll.counts[: self.passing])[0] if self.picked is None else self.picked

    @property
    def settled(self) -> bool:
        """Whether more votes can no longer change how far the picked class is named."""
        return self.poll.exhausted or self._enough(self.named, self.may_be_named)

    def needs(self, furthest: float) -> bool:
        """Whether an expert that certifies up to `furthest` may prove more than the router alone."""
        left = self._left(furthest)
        return left > self.named and not self._enough(self.named, max(self.may_be_named, left))

    def enough(self, below: Certificate) -> bool:
        """Whether more votes can no longer change what is asked, now that the expert is known."""
        label, own = self.label(below), self.own(below)
        possible = max(self.may_be_named, min(self.may_be_unnamed(label), own))
        return self._enough(self.proved(below), possible)

    def label(self, below: Certificate | None) -> int | None:
        """The class that is claimed, if any."""
        return below.predicted if self.picked is None and below is not None else self.picked

    def own(self, below: Certificate | None) -> float:
        """How far the expert certifies that class."""
        agrees = below is not None and below.predicted is not None and below.predicted == self.label(below)
        return below.radius if below is not None and agrees else 0.0

    def proved(self, below: Certificate | None) -> float:
        """The radius by now."""
        return radius.named(self.router.noise, self.lower, self.upper(self.label(below)), self.own(below))

    @property
    def lower(self) -> float:
        """L."""
        if self.picked is None:
            return 0.0
        looks = self._looks(self.pay.naming)
        return max((table.lower(c[self.picked], sum(c), level) for c, level in looks), default=0.0)

    def upper(self, label: int | None) -> float:
        """U of a class; of None, and always if blind: of all classes."""
        looks = self._looks(self.pay.rivals)
        return min((table.upper(self._most(c, label), sum(c), level) for c, level in looks), default=1.0)

    @property
    def named(self) -> float:
        """R by now."""
        return radius.named(self.router.noise, self.lower)

    def unnamed(self, label: int | None) -> float:
        """W by now."""
        return radius.kept_out(self.router.noise, self.upper(label))

    @property
    def may_be_named(self) -> float:
        """R that all draws may prove."""
        if self.poll.exhausted or self.picked is None or not self.pay.naming:
            return self.named
        best = hopeful(self.poll.counts, self.picked, self.n, self.sampling.doubt)[self.picked]
        level = self.sampling.last_level(self.n, self.pay.naming)
        return max(self.named, radius.named(self.router.noise, table.lower(best, self.n, level)))

    def may_be_unnamed(self, label: int | None) -> float:
        """W that all draws may prove."""
        if self.poll.exhausted or not self.pay.rivals:
            return self.unnamed(label)
        fewest = self._most(hopeful(self.poll.counts, self.passing, self.n, self.sampling.doubt), label)
        level = self.sampling.last_level(self.n, self.pay.rivals)
        return max(self.unnamed(label), radius.kept_out(self.router.noise, table.upper(fewest, self.n, level)))

    def stage(self, label: int | None) -> Stage:
        """What is recorded: the bounds that count for this class, and how far the votes alone reach."""
        counts, ask = self.poll.counts, self.poll.ask
        picked = self.picked is not None
        lower = self.lower if picked else None
        upper = self.upper(label) if self.pay.rivals else None
        reach = self.named if picked else self.unnamed(label)
        return Stage(ask.stage, ask.sigma, counts, sum(counts), self.alpha, lower, upper, reach, self.poll.recorded)

    def _left(self, furthest: float) -> float:
        """What the router leaves to an expert, as far as it may be."""
        return min(self.may_be_unnamed(self.first), furthest)

    def _enough(self, proved: float, possible: float) -> bool:
        return self.sampling.enough(proved, possible, self.router.sigma)

    def _most(self, counts: Counts, label: int | None) -> int:
        """The most votes for naming a class but this one."""
        but = None if self.blind else label
        return max(k for c, k in enumerate(counts[: self.passing]) if c != but)

    def _looks(self, alpha: float) -> list[tuple[Counts, float]]:
        """The votes up to each look, with what a bound that may spend alpha may spend there."""
        return self.poll.paid(self.sampling.schedule(self.n, alpha)) if alpha else []


def largest_radius(
    router: SmoothedRule, furthest: float, *, n: int, alpha: float, sampling: Sampling, blind: bool
) -> float:
    """What n votes can prove at most: all for one class, or none for any and an expert that goes so far."""
    picked, passed = (Pay.of(alpha, picked=picked, blind=blind) for picked in (True, False))
    named = radius.named(router.noise, table.lower(n, n, sampling.last_level(n, picked.naming)))
    unnamed = radius.kept_out(router.noise, table.upper(0, n, sampling.last_level(n, passed.rivals)))
    return max(named, min(unnamed, furthest))


def _concluded(
    names: Names, picks: Counts, below: Certificate | None, *, alpha: float, unused: Sequence[Spent]
) -> Certificate:
    label, proved = names.label(below), names.proved(below)
    selection = Stage(prefixed(ROUTER, "selection"), names.router.sigma, picks, sum(picks))
    return Certificate(
        predicted=label if proved else None,
        radius=proved,
        outcome=Outcome.CERTIFIED if proved else _why_not(names, below),
        alpha=alpha,
        stages=(selection, names.stage(label), *(below.stages if below is not None else ())),
        ledger=(Spent(ROUTER, names.alpha), *(below.ledger if below is not None else ()), *unused),
    )


def _why_not(names: Names, below: Certificate | None) -> Outcome:
    if names.picked is None and below is not None and below.predicted is None:
        return below.outcome
    given_up = names.sampling.targets and not names.poll.exhausted
    return Outcome.GIVEN_UP if given_up else Outcome.NAME_UNDECIDED
