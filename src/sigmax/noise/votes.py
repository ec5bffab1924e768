"""The engine: runs many procedures at once and keeps every batch full across their inputs.

# x inputs; an item is one ask of one input; the votes of a round lie end to end on one line, cut into batches

The layout of a round depends only on what is asked, never on what is already known, so a resumed run casts each
missing vote in the batch it would have stood in. A batch in which nothing is unknown is not run.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from sigmax.certify.procedure import Ask, Counts, Procedure, Result, recorded_counts
from sigmax.errors import RunError
from sigmax.noise.draws import BLOCK, Source, empty
from sigmax.noise.voter import Voter, refuse_invalid
from sigmax.records.certificate import Stage

WORTH_A_THREAD = 32_768  # numbers a block: fewer are drawn faster than another thread is told to
Known = Mapping[int, Sequence[Stage]]  # position of an input -> the stages already recorded for it


@dataclass(frozen=True, slots=True)
class Noisy:
    """The inputs of one call and the address their noise comes from."""

    x: Tensor  # (inputs, ...), float32, on the CPU where the noise is made
    ids: Sequence[int]
    seed: int


@dataclass(frozen=True, slots=True)
class Item:
    """One ask of the input at `position`; `known` holds its answer if a record already has it."""

    position: int
    ask: Ask
    known: Counts | None = None


def run(
    procedures: Sequence[Procedure[Result]],
    inputs: Noisy,
    voters: Mapping[str, Voter],
    known: Known | None = None,
) -> Iterator[tuple[int, Result]]:
    """Results as they are reached, each with the position of its input.

    All procedures advance together: one round answers everything that is asked at the moment.
    """
    asked = {position: next(procedure) for position, procedure in enumerate(procedures)}
    while asked:
        still_asking: dict[int, Ask] = {}
        for position, counts in answer(asked, inputs, voters, known or {}):
            try:
                still_asking[position] = procedures[position].send(counts)
            except StopIteration as end:
                yield position, end.value
        asked = dict(sorted(still_asking.items()))


def answer(
    asked: Mapping[int, Ask], inputs: Noisy, voters: Mapping[str, Voter], known: Known
) -> Iterator[tuple[int, Counts]]:
    """The counts of every ask; those that can share a batch do."""
    together: dict[tuple[str, float | None], list[Item]] = {}
    for position, ask in asked.items():
        recorded = {stage.name: stage for stage in known.get(position, ())}
        item = Item(position, ask, recorded_counts(ask, recorded) if recorded else None)
        # A network that is told sigma can serve only one sigma a batch.
        shared_sigma = ask.sigma if voters[ask.network].takes_sigma else None
        together.setdefault((ask.network, shared_sigma), []).append(item)
    for (network, _), items in together.items():
        yield from tally(voters[network], items, inputs)


def tally(voter: Voter, items: Sequence[Item], inputs: Noisy) -> Iterator[tuple[int, Counts]]:
    """Cast the votes of `items` batch by batch; each item's counts come as soon as they are whole."""
    voter.ready()
    ends = list(accumulate(item.ask.n for item in items))
    counts = torch.zeros(len(items) * voter.classes, dtype=torch.int64, device=voter.device)
    invalid = torch.zeros((), dtype=torch.bool, device=voter.device)
    size = min(voter.batch, ends[-1])  # read once: the voter may serve inputs of another shape meanwhile
    filler = Filler(inputs, size)
    done = 0
    for first in range(0, ends[-1], size):
        last = min(first + size, ends[-1])
        touched = overlapping(ends, done, last)
        if any(items[i].known is None for i in touched):
            batch, rows = filler.fill([(i, *span(items, ends, i, first, last)) for i in touched], items)
            votes, bad = voter.vote(batch, items[touched[0]].ask.sigma)
            cells = rows.to(voter.device) * voter.classes + votes
            counts.scatter_add_(0, cells, torch.ones_like(cells))
            invalid |= bad
        finished = [i for i in touched if ends[i] <= last]
        if finished:
            done = finished[-1] + 1
            refuse_invalid(invalid, voter.classes)
            table = counts.view(-1, voter.classes)[finished[0] : done].tolist()  # the one copy to the host
            for i, row in zip(finished, table, strict=True):
                yield items[i].position, whole(items[i], row)


def whole(item: Item, counted: Sequence[int]) -> Counts:
    """The item's counts, seen to be complete: a vote lost on the way must never make a bound look better."""
    counts = item.known or tuple(counted)
    if sum(counts) != item.ask.n:
        raise RunError(
            f"{item.ask.n} votes were asked for and {sum(counts)} counted; this is a bug, please report it"
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
    """Rows `first` to `last` of a batch: the draws `low` to `high` of one block of one item's noise."""

    first: int
    last: int
    item: Item
    block: int
    low: int
    high: int

    @property
    def address(self) -> tuple[int, str, int]:
        """What the block's noise depends on, within one call."""
        return self.item.position, self.item.ask.stage, self.block


class Filler:
    """Writes noisy inputs into one buffer that every batch reuses.

    Whole blocks are drawn where they are needed, large ones by several threads at once. A block that is cut by the
    batch's edge is drawn aside and kept, because the next batch may go on with it.
    """

    def __init__(self, inputs: Noisy, size: int) -> None:
        self.inputs = inputs
        shape = inputs.x.shape[1:]
        self.batch = empty((size, *shape))
        self.rows = torch.empty(size, dtype=torch.int64, device="cpu")
        self.aside = empty((BLOCK, *shape))
        self.aside_holds: tuple[int, str, int] | None = None
        self.source = Source()
        self.thread = threading.local()  # each thread's own source
        threads = torch.get_num_threads() if self.aside.numel() >= WORTH_A_THREAD else 1
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def fill(self, spans: Sequence[tuple[int, int, int]], items: Sequence[Item]) -> tuple[Tensor, Tensor]:
        """The batch made of the given draws of the given items, and which item each row belongs to."""
        pieces: list[Piece] = []
        ranges: list[tuple[int, int, Item]] = []
        used = 0
        for i, start, stop in spans:
            ranges.append((used, used + stop - start, items[i]))
            self.rows[used : used + stop - start] = i
            for index, low, high in in_blocks(start, stop):
                pieces.append(Piece(used, used + high - low, items[i], index, low, high))
                used += high - low
        self._draw(pieces)
        for first, last, item in ranges:
            # Two operations, not one with alpha: their result is the same on every machine and for every batch.
            self.batch[first:last].mul_(item.ask.sigma).add_(self.inputs.x[item.position])
        return self.batch[:used], self.rows[:used]

    def _draw(self, pieces: Sequence[Piece]) -> None:
        whole = [piece for piece in pieces if piece.high - piece.low == BLOCK]
        for piece in pieces:
            if piece.high - piece.low < BLOCK:
                self._draw_aside(piece)
        if self.pool is None:
            for piece in whole:
                self._draw_whole(piece, self.source)
        else:
            list(self.pool.map(self._draw_in_thread, whole))

    def _draw_in_thread(self, piece: Piece) -> None:
        if not hasattr(self.thread, "source"):
            self.thread.source = Source()
        self._draw_whole(piece, self.thread.source)

    def _draw_whole(self, piece: Piece, source: Source) -> None:
        self._noise(piece, self.batch[piece.first : piece.last], source)

    def _draw_aside(self, piece: Piece) -> None:
        if self.aside_holds != piece.address:
            self._noise(piece, self.aside, self.source)
            self.aside_holds = piece.address
        self.batch[piece.first : piece.last] = self.aside[piece.low : piece.high]

    def _noise(self, piece: Piece, out: Tensor, source: Source) -> None:
        source.fill(out, self.inputs.seed, self.inputs.ids[piece.item.position], piece.item.ask.stage, piece.block)


def in_blocks(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The draws `start` to `stop` as (block, first, last) within each block they touch."""
    for index in range(start // BLOCK, -(-stop // BLOCK)):
        yield index, max(start - index * BLOCK, 0), min(stop - index * BLOCK, BLOCK)
