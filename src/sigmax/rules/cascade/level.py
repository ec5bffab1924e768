"""One level of a cascade: its votes, look by look, and what they prove of answering a class or deferring. No torch.

# K classes; q_c the level's share of votes for class c, and one more for votes to defer; t its threshold
# The level answers c where q_c > t, and defers where no class has it. A the class that its selection samples picked,
# L <= q_A; U(c) >= q_j of every class j but c

U(c) = upper(max of k_j, j not c). The class of the largest share but c has no more votes than that maximum, so for
a c that was fixed before these votes U(c) is one bound. Where no class was picked, c comes from the level below: U(c)
then fails only if upper(k_j) does for one of the two classes of the truly largest shares (the second of them is the
largest but c if c is the first, else the first is), so two payments serve every c, even one that these votes helped
pick.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sigmax import radius
from sigmax.bounds import table
from sigmax.rules.certificate import Certificate, Role, Stage
from sigmax.rules.poll import Best, Poll
from sigmax.rules.procedure import Answer, Counts, Question, VoteRequest
from sigmax.rules.sampling import (
    LITTLE,
    LITTLE_FOR_ONE,
    Sampling,
    optimistic_count,
    optimistic_pair,
    pessimistic_count,
)
from sigmax.rules.smoothed import SmoothedRule


class Payment(NamedTuple):
    """What the bounds of a level may spend: L, and each bound behind U."""

    answer: float
    rivals: float

    @classmethod
    def of(cls, alpha: float, *, picked: bool) -> "Payment":
        """Half for L and half for U where a class was picked; where not, half for each of the two bounds behind U."""
        return cls(alpha / 2 if picked else 0.0, alpha / 2)


@dataclass(frozen=True)
class Level:
    """A smoothed classifier that answers a class only where its share of votes is above a threshold."""

    part: str
    rule: SmoothedRule
    threshold: float

    def request(self, role: Role, n: int, then: VoteRequest | None = None) -> VoteRequest:
        """The request for n votes in a role; `then`: what is likely to be asked after it."""
        return VoteRequest(self.part, role, self.rule.columns, self.rule.noise, n, then=then)

    def picked(self, picks: Counts) -> int | None:
        """The class that enough selection votes are for; None where there is none, and the level is to defer."""
        top = self.rule.top(picks)
        return top if picks[top] > self.threshold * sum(picks) else None

    def answers(self, lower: float) -> float:
        """How far a class with a share of at least `lower` stays above the threshold."""
        return self.rule.noise.margin(lower, self.threshold)  # radius.answer_radius; the threshold is checked

    def excludes(self, upper: float) -> float:
        """How far no class with a share of at most `upper` gets above the threshold."""
        return self.rule.noise.margin(self.threshold, upper)  # radius.exclusion_radius


class Tally:
    """The votes of a level. Bounds of all looks hold together, so each is the best of them."""

    def __init__(self, level: Level, label: int | None, *, n: int, alpha: float, sampling: Sampling) -> None:
        self.level, self.picked, self.n, self.alpha, self.sampling = level, label, n, alpha, sampling
        self.classes = level.rule.classes
        self.payment = Payment.of(alpha, picked=label is not None)
        self.poll = Poll(level.request(Role.ESTIMATION, n), sampling.schedule(n, alpha))
        answers = sampling.schedule(n, self.payment.answer) if label is not None else ()
        self._lower = Best(self.poll, answers, self._lower_at, max, 0.0)
        self._rivals = sampling.schedule(n, self.payment.rivals)
        self._upper: dict[int | None, Best] = {}
        self._any_use = sampling.beyond(0.0, None)

    def sampling_alone(self) -> Generator[Question, Answer, None]:
        """Votes until it is known about how far the picked class is answered, so that what is below may be asked."""
        yield from self.poll.more()
        while not (self.poll.exhausted or self._known()):
            yield from self.poll.more()

    def _known(self) -> bool:
        if len(self.sampling.targets) > 1:
            # The further its own answer is known, the fewer of these radii are asked about below.
            answer = self.answer
            return self._any_use.enough(answer, self._possible(answer), self.level.rule.sigma)
        foreseen = self.foreseen
        little = (LITTLE_FOR_ONE if self.sampling.targets else LITTLE) * self.n
        return self.poll.cast >= little or self._enough(foreseen, self._possible(foreseen))

    def settled(self, below: Certificate | None, furthest: float) -> bool:
        """Whether more votes can no longer change what is asked; what was not asked may certify up to `furthest`."""
        if self.poll.exhausted and below is not None:
            return True
        label = self.first if below is None else self.label(below)
        own = furthest if below is None else self.own(below)
        possible = self.possible_answer
        if own > possible:
            possible = max(possible, min(self.possible_exclusion(label), own))
        return self._enough(self.proved(below), possible)

    def needs(self, furthest: float) -> bool:
        """Whether a certificate below of up to `furthest` may prove more than the level is foreseen to do alone."""
        left = min(self.possible_exclusion(self.first), furthest)
        alone = self.foreseen
        return left > alone and not self._enough(alone, left)

    @property
    def first(self) -> int:
        """The class that may be certified, as far as the level can tell."""
        return self.level.rule.top(self.poll.counts) if self.picked is None else self.picked

    def label(self, below: Certificate | None) -> int | None:
        """The class that is claimed, if any."""
        return below.predicted if self.picked is None and below is not None else self.picked

    def own(self, below: Certificate | None) -> float:
        """How far that class is certified below."""
        agrees = below is not None and below.predicted is not None and below.predicted == self.label(below)
        return below.radius if below is not None and agrees else 0.0

    def proved(self, below: Certificate | None) -> float:
        """The radius by now."""
        rule, threshold = self.level.rule, self.level.threshold
        bounds = radius.LevelBounds(rule.noise, self.lower, self.upper(self.label(below)), threshold)
        return radius.cascade([bounds], self.own(below))

    def left_to(self, below: Certificate) -> bool:
        """Whether the class is that of what is below: the level was not shown to answer it at the input itself."""
        return self.picked is None or (self.own(below) > 0 and not self.answer)

    def limits(self, below: Certificate | None) -> bool:
        """Whether this level, rather than what is below it, limits the radius."""
        return self.answer >= self.own(below) or self.exclusion(self.label(below)) <= self.own(below)

    @property
    def lower(self) -> float:
        """L."""
        return 0.0 if self.picked is None else self._lower.value()

    def upper(self, label: int | None) -> float:
        """U of a class; of None: of all classes."""
        if label not in self._upper:
            self._upper[label] = Best(self.poll, self._rivals, partial(self._upper_at, label), min, 1.0)
        return self._upper[label].value()

    @property
    def answer(self) -> float:
        """The answer radius by now."""
        return self.level.answers(self.lower)

    def exclusion(self, label: int | None) -> float:
        """The exclusion radius by now."""
        return self.level.excludes(self.upper(label))

    @property
    def foreseen(self) -> float:
        """The answer radius that all samples will prove at least, most likely."""
        if self.poll.exhausted or self.picked is None:
            return self.answer
        worst = pessimistic_count(self.poll.counts[self.picked], self.poll.cast, self.n, self.sampling.futility)
        return max(self.answer, self.level.answers(table.lower(worst, self.n, self._lower.schedule[-1].level)))

    @property
    def possible_answer(self) -> float:
        """The answer radius that all samples may prove."""
        return self._possible(self.answer)

    def _possible(self, answer: float) -> float:
        if self.poll.exhausted or self.picked is None:
            return answer
        best = optimistic_count(self.poll.counts[self.picked], self.poll.cast, self.n, self.sampling.futility)
        return max(answer, self.level.answers(table.lower(best, self.n, self._lower.schedule[-1].level)))

    def possible_exclusion(self, label: int | None) -> float:
        """The exclusion radius that all samples may prove."""
        if self.poll.exhausted:
            return self.exclusion(label)
        # At best the votes to come are to defer; those of a base classifier that never does are for the class itself.
        counts, cast = self.poll.counts, self.poll.cast
        column = self.classes if self.level.rule.defers else label
        hoped = 0 if column is None else counts[column]
        _, fewest = optimistic_pair(hoped, self._most(counts, label), cast, self.n, self.sampling.futility)
        return max(self.exclusion(label), self.level.excludes(table.upper(fewest, self.n, self._rivals[-1].level)))

    def stage(self, label: int | None) -> Stage:
        """What is recorded: the bounds that count for this class, and how far the votes alone reach."""
        counts, sigma = self.poll.counts, self.level.rule.sigma
        picked = self.picked is not None
        lower = self.lower if picked else None
        reach = self.answer if picked else self.exclusion(label)
        upper, looks = self.upper(label), self.poll.recorded
        part, role = self.level.part, Role.ESTIMATION
        return Stage(part, role, sigma, counts, sum(counts), self.alpha, lower, upper, reach, looks)

    def _enough(self, proved: float, possible: float) -> bool:
        return self.sampling.enough(proved, possible, self.level.rule.sigma)

    def _most(self, counts: Counts, but: int | None) -> int:
        """The most votes for a class but this one."""
        own = counts[: self.classes]
        return max(own) if but is None else max(own[:but] + own[but + 1 :])

    def _lower_at(self, counts: Counts, level: float) -> float:
        assert self.picked is not None
        return table.lower(counts[self.picked], sum(counts), level)

    def _upper_at(self, label: int | None, counts: Counts, level: float) -> float:
        return table.upper(self._most(counts, label), sum(counts), level)
