"""Selection: up to n0 samples pick what is estimated, and prove nothing. No torch.

# m of n0 selection samples are cast; k_c of them for class c

What is picked is fixed before the estimation samples, whose bounds hold for any pick. So selection may stop for any
reason, and it pays nothing: it stops once all n0 samples would most likely pick the same.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import pairwise
from operator import add

from sigmax.rules.certificate import Role, Stage
from sigmax.rules.procedure import Answer, Counts, Question, VoteRequest, votes
from sigmax.rules.sampling import Sampling, optimistic_count, pessimistic_count

Clear = Callable[[Counts, int, float], bool]  # counts, n0, futility: whether the samples to come hardly change the pick


@dataclass(frozen=True)
class Picks:
    """The selection samples of one part, look by look."""

    ask: VoteRequest
    looks: tuple[Counts, ...]
    counts: Counts

    @property
    def stage(self) -> Stage:
        """What a record keeps of them."""
        looks = self.looks if len(self.looks) > 1 else ()
        return Stage(self.ask.part, Role.SELECTION, self.ask.sigma, self.counts, sum(self.counts), looks=looks)


def selecting(ask: VoteRequest, sampling: Sampling, clear: Clear) -> Generator[Question, Answer, Picks]:
    """The selection samples: all that `ask` asks for, or as many as make the pick clear where sampling is adaptive."""
    n0, looks, counts = ask.n, list[Counts](), (0,) * ask.classes
    for start, stop in pairwise((0, *sampling.selection_stops(n0))):
        looks.append((yield from votes(ask._replace(start=start, stop=stop))))
        counts = tuple(map(add, counts, looks[-1]))
        if stop < n0 and clear(counts, n0, sampling.futility):
            break
    return Picks(ask, tuple(looks), counts)


def leads_clearly(classes: int) -> Clear:
    """Whether the leading one of the first `classes` will most likely lead after all n0 samples."""

    def clear(counts: Counts, n0: int, futility: float) -> bool:
        cast, (first, second) = sum(counts), sorted(counts[:classes], reverse=True)[:2]
        return pessimistic_count(first, cast, n0, futility) > optimistic_count(second, cast, n0, futility)

    return clear


def answers_clearly(classes: int, threshold: float) -> Clear:
    """Whether after all n0 samples one class most likely has more than the threshold's share, or none has."""

    def clear(counts: Counts, n0: int, futility: float) -> bool:
        cast, first = sum(counts), max(counts[:classes])
        least, most = (end(first, cast, n0, futility) for end in (pessimistic_count, optimistic_count))
        return least > threshold * n0 or most <= threshold * n0

    return clear
