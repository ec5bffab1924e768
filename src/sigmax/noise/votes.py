"""The engine: runs many procedures at once and keeps every batch full across their inputs.

# x inputs; an item is one ask of one input; the votes of a round lie end to end on one line, cut into batches

The layout of a round depends only on what is asked, never on what is already known, so a resumed run casts each
missing vote in the batch it would have stood in. A batch in which nothing is unknown is not run.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from sigmax.certify.procedure import (
    Answer,
    Ask,
    Counted,
    Counts,
    Local,
    Look,
    Procedure,
    Question,
    Result,
    Seen,
    Together,
    recorded_answer,
)
from sigmax.errors import RunError
from sigmax.noise.device_filler import DeviceFiller
from sigmax.noise.draws import BLOCK, Address, Source, empty
from sigmax.noise.sharing import joined
from sigmax.noise.voter import Voter, refuse_invalid
from sigmax.records.certificate import Stage

BATCHES_AHEAD = 64  # that a GPU is given before its counts are asked for
MOST_BATCHES = 64  # that a round fills: the last one is seldom full, so they should be many
WORTH_A_THREAD = 32_768  # numbers a block: fewer are drawn faster than another thread is told to
Known = Mapping[int, Sequence[Stage]]  # position of an input -> the stages already recorded for it


@dataclass(frozen=True, slots=True)
class Noisy:
    """The inputs of one call and the address their noise comes from."""

    x: Tensor  # (inputs, ...), float32, on the CPU where the noise is made
    ids: Sequence[int]
    seed: int
    sent: dict[torch.device, Tensor] = field(default_factory=dict)

    def on(self, device: torch.device) -> Tensor:
        """The inputs as rows of numbers on a device, to which they go once."""
        if device not in self.sent:
            self.sent[device] = self.x.flatten(1).contiguous().to(device)
        return self.sent[device]


@dataclass(frozen=True, slots=True)
class Item:
    """One ask of the input at `position`, or several on the same draws; `known`: the answers a record has."""

    position: int
    asks: tuple[Ask, ...]
    known: tuple[Counts, ...] | None = None

    @property
    def ask(self) -> Ask:
        """The ask whose draws all of them share."""
        return self.asks[0]

    @property
    def stage(self) -> str:
        """The stage that the noise is addressed by."""
        return self.ask.noise or self.ask.stage


def run(
    procedures: Sequence[Procedure[Result]],
    inputs: Noisy,
    voters: Mapping[str, Voter],
    known: Known | None = None,
) -> Iterator[tuple[int, Result]]:
    """Results as they are reached, each with the position of its input.

    Procedures advance together: a round answers what is asked at the moment, the first inputs first and no more
    than fills `MOST_BATCHES`. So large asks do not wait for each other: inputs finish one after another, and a run
    that is cut loses the votes of a few.
    """
    asked = {position: next(procedure) for position, procedure in enumerate(procedures)}
    most = MOST_BATCHES * max(voter.batch for voter in voters.values())
    while asked:
        now = first_asks(asked, most)
        asked = {position: question for position, question in asked.items() if position not in now}
        for position, reply in answer(now, inputs, voters, known or {}):
            try:
                asked[position] = procedures[position].send(reply)
            except StopIteration as end:
                yield position, end.value
        asked = dict(sorted(asked.items()))


def first_asks(asked: Mapping[int, Question], most: int) -> dict[int, Question]:
    """The questions of the first inputs, up to `most` votes together; at least one, and of looks all."""
    taken: dict[int, Question] = {}
    votes = 0
    for position, question in asked.items():
        n = 0 if isinstance(question, Look | Local) else question.n
        if not taken or votes + n <= most:
            taken[position] = question
            votes += n
    return taken


def answer(
    asked: Mapping[int, Question], inputs: Noisy, voters: Mapping[str, Voter], known: Known
) -> Iterator[tuple[int, Answer]]:
    """The answers to all questions; those that can share a batch do."""
    together: dict[tuple[int, float | None], tuple[Voter, list[Item]]] = {}
    for position, question in asked.items():
        assert not isinstance(question, Local)  # the scheme answers these
        recorded = {stage.name: stage for stage in known.get(position, ())}
        reply = recorded_answer(question, recorded) if recorded else None
        if isinstance(question, Look):
            yield position, reply or look(voters[question.network], inputs.x[position])
            continue
        asks = question.asks if isinstance(question, Together) else (question,)
        voting = [voters[ask.network] for ask in asks]
        voter = voting[0] if len(asks) == 1 else joined(voting)
        # One network may have several names; but told sigma, it can serve only one sigma a batch.
        shared = id(voter), asks[0].sigma if voter.takes_sigma else None
        together.setdefault(shared, (voter, []))[1].append(Item(position, asks, _as_counts(reply)))
    for voter, items in together.values():
        for position, counts in tally(voter, items, inputs):
            yield position, counts[0] if len(counts) == 1 else Counted(counts)


def _as_counts(reply: Answer | None) -> tuple[Counts, ...] | None:
    assert not isinstance(reply, Seen | float)
    return reply.counts if isinstance(reply, Counted) else None if reply is None else (reply,)


def look(voter: Voter, x: Tensor) -> Seen:
    """The scores of one input by itself: a batch of one, so that they do not depend on any neighbour."""
    voter.ready()
    (first, second), (top, _) = voter.scores(x[None])[0].double().topk(2)
    return Seen(int(top), float(first), float(second))


def tally(voter: Voter, items: Sequence[Item], inputs: Noisy) -> Iterator[tuple[int, tuple[Counts, ...]]]:
    """Cast the votes of `items` batch by batch; on a CPU each item's counts come as soon as they are whole."""
    voter.ready()
    shifts = torch.tensor([0, *accumulate(voter.parts)][:-1], device=voter.device)
    ends = list(accumulate(item.ask.n for item in items))
    counts = torch.zeros(len(items) * voter.classes, dtype=torch.int64, device=voter.device)
    invalid = torch.zeros((), dtype=torch.bool, device=voter.device)
    size = min(voter.batch, ends[-1])  # read once: the voter may serve inputs of another shape meanwhile
    filler = filler_for(voter, items, inputs, size)
    # A GPU must not wait for the host after each batch: it is asked for counts now and then, and at the end.
    patience = 1 if voter.device.type == "cpu" else BATCHES_AHEAD
    done = told = waiting = 0
    for first in range(0, ends[-1], size):
        last = min(first + size, ends[-1])
        touched = overlapping(ends, done, last)
        if any(items[i].known is None for i in touched):
            batch, rows = filler.fill([(i, *span(items, ends, i, first, last)) for i in touched], items)
            votes, bad = voter.vote(batch, items[touched[0]].ask.sigma)
            cells = (rows.to(votes.device)[:, None] * voter.classes + shifts + votes).flatten()
            counts.scatter_add_(0, cells, torch.ones_like(cells))
            invalid |= bad
        done += sum(ends[i] <= last for i in touched)
        waiting += 1
        if done > told and (waiting >= patience or last == ends[-1]):
            refuse_invalid(invalid, voter.classes)
            table = counts.view(-1, voter.classes)[told:done].tolist()  # the one copy to the host
            for item, row in zip(items[told:done], table, strict=True):
                yield item.position, whole(item, row, voter.parts)
            told, waiting = done, 0


def filler_for(voter: Voter, items: Sequence[Item], inputs: Noisy, size: int) -> "Filler | DeviceFiller":
    """What makes the batches: a CPU draws from its blocks, a GPU makes its own noise where it votes."""
    if voter.device.type == "cpu":
        return Filler(inputs, size)
    return DeviceFiller(inputs, items, size, voter.device)


def whole(item: Item, counted: Sequence[int], parts: Sequence[int]) -> tuple[Counts, ...]:
    """The item's counts, seen to be complete: a vote lost on the way must never make a bound look better."""
    ends = list(accumulate(parts))
    counts = item.known or tuple(tuple(counted[end - k : end]) for end, k in zip(ends, parts, strict=True))
    for votes in counts:
        if sum(votes) != item.ask.n:
            raise RunError(
                f"{item.ask.n} votes were asked for and {sum(votes)} counted; this is a bug, please report it"
            )
    return counts


def overlapping(ends: Sequence[int], done: int, last: int) -> range:
    """The items with votes before `last`, given that the first `done` are finished."""
    stop = done
    while stop < len(ends) and (stop == done or ends[stop - 1] < last):
        stop += 1
    return range(done, stop)


def span(items: Sequence[Item], ends: Sequence[int], i: int, first: int, last: int) -> tuple[int, int]:
    """Which draws of item i stand in the batch from `first` to `last`."""
    begin = ends[i] - items[i].ask.n
    start = items[i].ask.start
    return start + max(first - begin, 0), start + min(last - begin, items[i].ask.n)


class Piece(NamedTuple):
    """Rows `first` to `last` of a batch: the draws of one block of noise from `low` on."""

    first: int
    last: int
    address: Address
    low: int


class Filler:
    """Writes noisy inputs into one buffer that every batch reuses.

    Large whole blocks are drawn by several threads at once. A block that the batch's edge cuts is drawn by one
    source that stays where it is, because the next batch goes on with it.
    """

    def __init__(self, inputs: Noisy, size: int) -> None:
        self.inputs = inputs
        shape = inputs.x.shape[1:]
        self.batch = empty((size, *shape))
        self.rows = torch.empty(size, dtype=torch.int64, device="cpu")
        self.source = Source()
        self.thread = threading.local()  # each thread's own source
        threads = torch.get_num_threads() if BLOCK * shape.numel() >= WORTH_A_THREAD else 1
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def fill(self, spans: Sequence[tuple[int, int, int]], items: Sequence[Item]) -> tuple[Tensor, Tensor]:
        """The batch made of the given draws of the given items, and which item each row belongs to."""
        used = 0
        pieces: list[Piece] = []
        for i, start, stop in spans:
            self.rows[used : used + stop - start] = i
            pieces += self._pieces(items[i], used, start, stop)
            used += stop - start
        self._draw(pieces)
        used = 0
        for i, start, stop in spans:
            # Two operations, not one with alpha: their result is the same on every machine and for every batch.
            noisy = self.batch[used : used + stop - start]
            noisy.mul_(items[i].ask.sigma).add_(self.inputs.x[items[i].position])
            used += stop - start
        return self.batch[:used], self.rows[:used]

    def _pieces(self, item: Item, row: int, start: int, stop: int) -> Iterator[Piece]:
        seed, input_id = self.inputs.seed, self.inputs.ids[item.position]
        for index, low, high in in_blocks(start, stop):
            yield Piece(row, row + high - low, Address(seed, input_id, item.stage, index), low)
            row += high - low

    def _draw(self, pieces: Sequence[Piece]) -> None:
        alone = [piece for piece in pieces if self.pool is None or piece.last - piece.first < BLOCK]
        for piece in alone:
            self._draw_from(self.source, piece)
        if self.pool is not None:
            list(self.pool.map(self._draw_in_thread, (p for p in pieces if p.last - p.first == BLOCK)))

    def _draw_in_thread(self, piece: Piece) -> None:
        if not hasattr(self.thread, "source"):
            self.thread.source = Source()
        self._draw_from(self.thread.source, piece)

    def _draw_from(self, source: Source, piece: Piece) -> None:
        source.fill(self.batch[piece.first : piece.last], piece.address, piece.low)


def in_blocks(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The draws `start` to `stop` as (block, first, last) within each block they touch."""
    for index in range(start // BLOCK, -(-stop // BLOCK)):
        yield index, max(start - index * BLOCK, 0), min(stop - index * BLOCK, BLOCK)
