"""One scale of a cascade: its votes, look by look, and what they prove of naming a class or passing the input on.

# t threshold; L <= p_A; U >= p_c for every class c but one; see `radius.cascade`
"""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import count

from sigmax import bounds, radius
from sigmax.bounds import table
from sigmax.certify.procedure import Answer, Ask, Counts, Question
from sigmax.certify.sampling import Poll, Sampling, hopeful
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Stage, leading


def scale_name(s: int) -> str:
    """How a scale is called in stages, networks and the ledger; 0 is the largest sigma."""
    return f"scale-{s}"


@dataclass(frozen=True)
class Scale(SmoothedRule):
    """A smoothed classifier that names a class only where its share is above a threshold."""

    threshold: float = 0.5

    def reach(self, lower: float, upper: float | None) -> float:
        """How far the class stays above the threshold."""
        return radius.cascade([self.noise], lower, thresholds=self.threshold)

    def passing(self, upper: float) -> float:
        """How far no class with a share of at most `upper` here can be named."""
        # A certain class behind it, so that nothing but this scale limits the radius.
        return radius.cascade([self.noise, self.noise], 1.0, [upper], thresholds=[self.threshold, 0.5])

    def fewest_draws(self, alpha: float) -> int:
        """The least n whose unanimous votes name a class."""
        return next(n for n in count(1) if bounds.lower(n, n, alpha) > self.threshold)


class Tally:
    """The votes of a scale. Bounds of all looks hold together, so each is the best of them."""

    def __init__(self, scale: Scale, ask: Ask, n: int, sampling: Sampling) -> None:
        self.scale, self.ask, self.n, self.sampling = scale, ask, n, sampling
        self._poll = Poll(ask, ())

    def drawing(self, top: int, naming: float, passing: float) -> Generator[Question, Answer, None]:
        """Votes on `top`, which was fixed before them, until what is asked of the scale is known."""
        self._poll = Poll(self.ask, self.sampling.schedule(self.n, naming))
        while not self._poll.exhausted:
            yield from self._poll.more()
            if self._enough(top, naming, passing):
                break

    @property
    def counts(self) -> Counts:
        """All votes."""
        return self._poll.counts

    @property
    def leader(self) -> int:
        """The class with the most votes: the one that this scale may be undecided about."""
        return leading(self.counts)[0]

    def lower(self, top: int, alpha: float) -> float:
        """L of the class: p < L with probability at most alpha."""
        return max((table.lower(c[top], sum(c), level) for c, level in self._looks(alpha)), default=0.0)

    def upper(self, but: int | None, alpha: float) -> float:
        """U of every class but one: some has p > U with probability at most alpha. 1 where nothing may be spent."""
        return min((table.upper(_most(c, but), sum(c), level) for c, level in self._looks(alpha)), default=1.0)

    def stage(self, *, alpha: float, lower: float, upper: float | None = None, reach: float) -> Stage:
        """What is recorded; `alpha` is what all bounds of the scale were granted."""
        counts = self.counts
        return Stage(
            self.ask.stage, self.scale.sigma, counts, sum(counts), alpha, lower, upper, reach, self._poll.recorded
        )

    def _looks(self, alpha: float) -> list[tuple[Counts, float]]:
        """The votes up to each look, with what a bound that may spend alpha may spend there."""
        return self._poll.paid(self.sampling.schedule(self.n, alpha)) if alpha else []

    def _enough(self, top: int, naming: float, passing: float) -> bool:
        """Whether more draws can no longer change what is asked of this scale. It costs power, never soundness."""
        enough, sigma = self.sampling.enough, self.scale.sigma
        if self.sampling.kind == "fixed" or self._poll.exhausted:
            return False
        named = self.scale.reach(self.lower(top, naming), None)
        best = hopeful(self.counts, top, self.n, self.sampling.doubt)
        level = self.sampling.last_level(self.n, naming)
        possible = self.scale.reach(table.lower(best[top], self.n, level), None)
        if named or possible or not passing:
            return enough(named, possible, sigma)
        first, second = leading(self.counts)
        # Which class the smaller scales will name is open: this one or another.
        return all(
            enough(*self._passes(but, rest, passing), sigma) for but, rest in ((first, first), (None, second))
        )

    def _passes(self, but: int | None, hoped: int, passing: float) -> tuple[float, float]:
        """How far the scale is passed by now, and how far all draws may show it to be."""
        now = self.scale.passing(self.upper(but, passing))
        best = hopeful(self.counts, hoped, self.n, self.sampling.doubt)
        level = self.sampling.last_level(self.n, passing)
        least = [k for c, k in enumerate(best) if c != hoped]
        return now, self.scale.passing(table.upper(max(least), self.n, level))


def _most(counts: Counts, but: int | None) -> int:
    return max(k for c, k in enumerate(counts) if c != but)
