"""Which inputs a run has: a selection, whose input i is start + i * skip, or a list of them as `described` has it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sigmax.errors import RequestError

Inputs = Mapping[str, int] | Sequence[Mapping[str, int]]

MOST = 10_000_000  # inputs that are listed one by one; a file may claim any number
_MANY = 2**40  # more inputs than any data set has
_LEAST = {"start": 0, "skip": 1, "count": 1}


def indices(inputs: Inputs) -> Sequence[int]:
    """The inputs by their index in the data, rising."""
    if isinstance(inputs, Mapping):
        start, skip, count = (inputs[key] for key in _LEAST)
        return range(start, start + skip * count, skip)
    return sorted(index for selection in inputs for index in indices(selection))


def described(found: Iterable[int]) -> dict[str, int] | list[dict[str, int]]:
    """The inputs as plain data: one selection where that will do."""
    selections = list(_selections(sorted(found)))
    return selections[0] if len(selections) == 1 else selections


def _selections(rising: Sequence[int]) -> Iterator[dict[str, int]]:
    """As many inputs from the first on as have the same distance, then from the next on; a lone one is its own."""
    first = 0
    while first < len(rising):
        last, skip = first, rising[first + 1] - rising[first] if first + 1 < len(rising) else 1
        while last + 1 < len(rising) and rising[last + 1] - rising[last] == skip:
            last += 1
        yield {"start": rising[first], "skip": skip, "count": last - first + 1}
        first = last + 1


def are_inputs(value: Any) -> bool:
    """Whether this is what a plan may say of its inputs: it may have been read from anywhere."""
    if isinstance(value, Mapping):
        return value.keys() == _LEAST.keys() and all(
            type(value[key]) is int and low <= value[key] < _MANY for key, low in _LEAST.items()
        )
    if not isinstance(value, list) or not all(isinstance(part, Mapping) and are_inputs(part) for part in value):
        return False
    return len(value) > 1 and sum(part["count"] for part in value) <= MOST and described(indices(value)) == value


def in_words(inputs: Inputs) -> str:
    """'5 from 3, every 20'; several selections one after another."""
    if not isinstance(inputs, Mapping):
        few = "; ".join(map(in_words, inputs[:3]))
        return f"{few}; ..." if len(inputs) > 3 else few
    start, skip, count = (inputs[key] for key in _LEAST)
    return f"{count} from {start}, every {skip}" if skip > 1 and count > 1 else f"{count} from {start}"


def covers(larger: Inputs, smaller: Inputs) -> bool:
    """Whether the first has every input of the second."""
    have, asked = indices(larger), indices(smaller)
    if have == asked:
        return True
    _refuse_many(have, asked)
    members = have if isinstance(have, range) else frozenset(have)  # a range knows without looking through
    return len(asked) <= len(have) and all(index in members for index in asked)


def same(one: Inputs, other: Inputs) -> bool:
    """Whether both are the same inputs, however they are described."""
    return indices(one) == indices(other)


def follow(larger: Inputs, smaller: Inputs) -> bool:
    """Whether all that the first has beyond the second comes after it."""
    _refuse_many(indices(larger), indices(smaller))
    return list(indices(larger)[: len(indices(smaller))]) == list(indices(smaller))


def _refuse_many(*listed: Sequence[int]) -> None:
    if any(len(each) > MOST for each in listed):
        raise RequestError(f"the run is of more than {MOST:,} inputs, too many to change; begin another run")
