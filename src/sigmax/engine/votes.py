"""The engine: the votes of a round are cast in batches that are full across inputs, networks and stages.

# an item is what is asked of one input; the votes of a round lie end to end on one line, cut into batches

The layout of a round depends only on what is asked, never on what is already known, so a resumed run casts each
missing vote in the batch it would have stood in. A batch in which nothing is unknown is not run. Rows that a compiled
network would be padded with cast votes that are likely to be asked for next (see `ahead`).
"""

import gc
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from sigmax import radius
from sigmax.engine.ahead import Ahead
from sigmax.engine.fillers import Spans, filler_for
from sigmax.engine.inputs import Arriving, Item, Noisy, sent
from sigmax.engine.outputs import refuse_invalid
from sigmax.engine.settings import keep_freed_memory
from sigmax.engine.sharing import joint_voter
from sigmax.engine.voter import Voter
from sigmax.errors import RunError
from sigmax.rules.procedure import (
    Answer,
    Counts,
    JointCounts,
    JointRequest,
    Question,
    ScoreRequest,
    Scores,
    SigmaRequest,
)
from sigmax.rules.replay import Recording

Recordings = Mapping[int, Recording]  # of the inputs that were voted on before, by position
Counted = tuple[int, tuple[Counts | None, ...]]  # position of an input, and the counts of each request


def answer(
    asked: Mapping[int, Question], inputs: Noisy, voters: Mapping[str, Voter], recorded: Recordings, ahead: Ahead
) -> Iterator[list[tuple[int, Answer]]]:
    """The answers to all requests, those known at once together; what can share a batch does.

    A GPU has its work when this returns. What is cast `ahead` waits there.
    """
    together: dict[tuple[int, str, float | None], tuple[Voter, list[Item]]] = {}
    scored = list[tuple[int, Answer]]()
    for position, question in asked.items():
        assert not isinstance(question, SigmaRequest)  # the scheme answers these
        reply = recorded[position].answer(question) if position in recorded else None
        if isinstance(question, ScoreRequest):
            scored.append((position, reply or score(voters[question.network], inputs.x[position])))
            continue
        requests = question.asks if isinstance(question, JointRequest) else (question,)
        voters_asked = [voters[request.network] for request in requests]
        voter = voters_asked[0] if len(requests) == 1 else joint_voter(voters_asked)
        noise = requests[0].noise
        # One network may have several names. A batch has one distribution, and one level if the model takes sigma.
        shared = id(voter), noise.name, noise.sigma if voter.takes_sigma else None
        together.setdefault(shared, (voter, []))[1].append(Item(position, requests, _as_counts(reply)))
    tallies = [tally(voter, items, inputs, ahead) for voter, items in together.values()]
    counted = ([(position, _as_answer(counts)) for position, counts in some] for some in chain(*tallies))
    return chain([scored], counted)


def _as_answer(counts: tuple[Counts | None, ...]) -> Answer:
    alone = counts[0] if len(counts) == 1 else None
    return JointCounts(counts) if alone is None else alone


def _as_counts(reply: Answer | None) -> tuple[Counts | None, ...] | None:
    assert not isinstance(reply, Scores | float)
    return reply.counts if isinstance(reply, JointCounts) else None if reply is None else (reply,)


def score(voter: Voter, x: Tensor) -> Scores:
    """The scores of one input by itself: a batch of one, so that they do not depend on any neighbour."""
    found, bits = voter.scores(x[None])
    (first, second), (top, _) = found[0].double().topk(2)
    size = (float(x.double().norm()) + math.sqrt(x.numel())) * (1 + 2.0**-40)
    return Scores(int(top), float(first), float(second), size, radius.rounding(x.numel(), bits=bits))


def tally(voter: Voter, asked: Sequence[Item], inputs: Noisy, ahead: Ahead | None = None) -> Iterator[list[Counted]]:
    """Cast the votes asked for batch by batch; the counts that a batch completes come by themselves.

    A GPU is given all batches before this returns, so the networks of a round follow each other without a pause, and
    what is done with the first counts takes its time while the last are cast. On a CPU a batch is cast when its counts
    are wanted. `ahead`: what else may be cast where rows would be run in vain.
    """
    room = voter.padding(sum(item.request.n for item in asked)) if ahead else 0
    work = Casting(voter, [*asked, *(ahead.items(asked, room) if ahead else ())], inputs)
    if voter.device.type == "cpu":
        keep_freed_memory()
        return (_sorted_out(work.counts_of(portion), ahead) for portion in work.portions())
    return (_sorted_out(work.counts_of(portion), ahead) for portion in list(work.portions()))


def _sorted_out(counted: Iterator[tuple[Item, tuple[Counts | None, ...]]], ahead: Ahead | None) -> list[Counted]:
    """The counts that were asked for; the others wait."""
    asked = list[Counted]()
    for item, counts in counted:
        if ahead and item.ahead:
            ahead.keep(item, counts)
        else:
            asked.append((item.position, counts))
    return asked


class Portion(NamedTuple):
    """Items that a batch completed, and their counts on the way to the host, with a last one: of invalid batches."""

    items: Sequence[Item]
    counts: Arriving


class Casting:
    """The votes of several items for one network, cast in full batches."""

    def __init__(self, voter: Voter, items: Sequence[Item], inputs: Noisy) -> None:
        self.voter, self.items = voter, items
        self.ends = list(accumulate(item.request.n for item in items))
        self.size = min(voter.batch, self.ends[-1])  # read once: the voter may serve inputs of another shape meanwhile
        self.filler = filler_for(voter.device, inputs, items, self.size)
        self.shifts = sent(torch.tensor([0, *accumulate(voter.parts)][:-1]), voter.device)
        self.counts = torch.zeros(len(items) * voter.classes, dtype=torch.int64, device=voter.device)
        self.one = torch.ones(1, dtype=torch.int64, device=voter.device)
        self.invalid = torch.zeros(1, dtype=torch.int64, device=voter.device)

    def portions(self) -> Iterator[Portion]:
        """Cast the votes, one batch at a step; the items that it completed, if any."""
        done = 0
        for first in range(0, self.ends[-1], self.size):
            last = min(first + self.size, self.ends[-1])
            touched = overlapping(self.ends, done, last)
            if any(self.items[i].known is None for i in touched):
                self._cast([(i, *span(self.items, self.ends, i, first, last)) for i in touched])
            begun, done = done, bisect_right(self.ends, last, done)
            if begun < done:
                cells = self.counts[begun * self.voter.classes : done * self.voter.classes]
                yield Portion(self.items[begun:done], Arriving(torch.cat([cells, self.invalid])))

    def _cast(self, spans: Spans) -> None:
        batch, rows = self.filler.fill(spans)
        votes, bad = self.voter.vote(batch, self.items[spans[0][0]].request.sigma)
        cells = torch.add(votes, rows.to(votes.device)[:, None], alpha=self.voter.classes)
        if len(self.voter.parts) > 1:
            cells += self.shifts
        self.counts.scatter_add_(0, cells.flatten(), self.one.expand(cells.numel()))
        self.invalid += bad
        gc.collect(0)  # what the network left in cycles; Python itself does not look for it meanwhile (see `rounds`)

    def counts_of(self, portion: Portion) -> Iterator[tuple[Item, tuple[Counts | None, ...]]]:
        """The counts of these items, once they have arrived."""
        *counts, invalid = portion.counts.wait().tolist()
        refuse_invalid(invalid, self.voter.classes)
        ends = list(accumulate(self.voter.parts, initial=0))
        columns = list(pairwise(ends))
        for first, item in zip(range(0, len(counts), ends[-1]), portion.items, strict=True):
            yield item, complete(item, [tuple(counts[first + a : first + b]) for a, b in columns])


def complete(item: Item, cast: Sequence[Counts]) -> tuple[Counts | None, ...]:
    """The item's counts, checked to be complete: a vote lost on the way must never make a bound look better."""
    counts: tuple[Counts | None, ...] = item.known or tuple(cast)
    n = item.request.n
    for votes in counts:
        if votes is not None and sum(votes) != n:
            raise RunError(f"{n} votes were asked for and {sum(votes)} counted; this is a bug, please report it")
    return counts


def overlapping(ends: Sequence[int], done: int, last: int) -> range:
    """The items with votes before `last`, given that the first `done` are finished."""
    return range(done, min(bisect_left(ends, last, done) + 1, len(ends)))


def span(items: Sequence[Item], ends: Sequence[int], i: int, first: int, last: int) -> tuple[int, int]:
    """Which samples of item i stand in the batch from `first` to `last`."""
    ask = items[i].request
    shift = ask.stop - ends[i]  # from a place on the line to a sample
    return max(first + shift, ask.start), min(last + shift, ask.stop)
