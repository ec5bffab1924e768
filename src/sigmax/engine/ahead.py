"""Votes cast before they are asked for, in rows that would be run in vain.

A compiled network runs batches of two sizes, so the last batch of a round is padded. Here the padding makes room for
what these inputs are likely to ask of the network next, and what was counted waits until it is asked for. So adaptive
sampling of few inputs has fewer rounds.

A vote follows from its address whenever it is cast, so no record changes by it, up to the rounding that a network has
in another batch. Nothing is decided by votes that were not asked for. Which are cast ahead follows from what is asked
alone, never from what is known, as all of a round's layout does: a resumed run casts the same ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sigmax.engine.inputs import Item
from sigmax.rules.procedure import Counts, Question, VoteRequest

Waiting = tuple[Counts | None]  # what was counted, or None where a record holds it
Samples = tuple[str, str, int, int]  # of an input: stage, stream, first and last


class Ahead:
    """The counts that wait to be asked for, by input and address of the samples."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[Samples, Waiting]] = {}

    def items(self, asked: Sequence[Item], room: int) -> Iterator[Item]:
        """What comes next, as much as there is room for: the next look of each input, then those after."""
        while asked and room:
            following = list[Item]()
            for item in asked:
                ask = item.request.likely_next() if len(item.requests) == 1 else None
                if ask is not None and ask.n <= room:
                    room -= ask.n
                    known = None if item.known is None else (None,)
                    following.append(replace(item, requests=(ask,), known=known, ahead=True))
                    yield following[-1]
            asked = following

    def keep(self, item: Item, counts: tuple[Counts | None, ...]) -> None:
        """What was counted for one of these items."""
        self._waiting.setdefault(item.position, {})[_samples(item.request)] = (counts[0],)

    def take(self, position: int, question: Question) -> Waiting | None:
        """What waits in answer to a question, once; None where it was not cast ahead."""
        waiting = self._waiting.get(position)
        if not waiting or not isinstance(question, VoteRequest):
            return None
        return waiting.pop(_samples(question), None)

    def join(self, other: "Ahead") -> None:
        """Take over what waits elsewhere, of other inputs."""
        self._waiting |= other._waiting

    def forget(self, position: int) -> None:
        """Nothing more is asked for this input."""
        self._waiting.pop(position, None)


def _samples(ask: VoteRequest) -> Samples:
    return ask.stage, ask.stream, ask.start, ask.stop
