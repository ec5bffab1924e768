"""A run put together line by line: reading, resuming and verifying agree here on what is whole."""

import math
from collections.abc import Container
from typing import Any

from sigmax.errors import RequestError
from sigmax.records.inputs import are_inputs
from sigmax.records.lines import Record, decode, encode
from sigmax.records.places import Places
from sigmax.records.plan import Plan

SHOWN = 3  # lines named in a sentence
EXTENDED = "extended"  # the kind of a line that says which inputs, of the same plan, the run has from there on


def extended(plan: Plan) -> bytes:
    """The line after which the run has the inputs of this plan."""
    return encode({"kind": EXTENDED, "inputs": plan.inputs})


class Assembly:
    """The plan, the records and whether the end was reached; a line that does not fit is refused, and left out.

    `plan` has the inputs that the last line of the kind "extended" gave it, if there is one.
    keep: whether `records` holds the records; who needs each of them once only has less to carry.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.plan: Plan | None = None
        self.records: dict[int, Record] = {}
        self.seen = Places()  # the inputs recorded so far, and where
        self.seconds = 0.0  # that they took
        self.size = 0  # bytes of the lines taken
        self.finished = False
        self._keep = keep
        self._lines = 0  # looked at so far
        self._refused: list[int] = []  # the numbers of those left out
        self._planned: Container[int] = ()

    def take(self, line: bytes) -> Record | None:
        """Add the next line, without its end; returns its record, if it holds one."""
        self._lines += 1
        try:
            return self._added(line)
        except RequestError:
            self._refused.append(self._lines)
            raise

    def _added(self, line: bytes) -> Record | None:
        offset, self.size = self.size, self.size + len(line) + 1
        try:
            data = decode(line)
            if self.plan is None:
                self._follow(Plan.from_json(data))
                return None
            return self._take(data, self.plan, offset)
        except RequestError:
            raise
        # A forged line can be whole and still hold anything: whatever breaks on it, it is the line that is wrong.
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise RequestError(f"the line holds a value of the wrong kind: {error!r}") from error

    def _take(self, data: dict[str, Any], plan: Plan, offset: int) -> Record | None:
        kind = data.get("kind")
        if kind == EXTENDED:
            self._extend(data, plan)
            return None
        if self.finished:
            raise RequestError("the line stands after the end line")
        if kind == "end":
            self._end(data, plan)
            return None
        record = Record.from_json(data)
        if record.index not in self._planned:
            raise RequestError(f"input {record.index} is not in the plan")
        if record.index in self.seen:
            raise RequestError(f"input {record.index} is recorded twice")
        if (record.label is not None) != plan.labelled:
            raise RequestError(
                f"input {record.index} has {'no' if plan.labelled else 'a'} label; the plan says that its data has "
                f"{'labels' if plan.labelled else 'none'}"
            )
        self.seen.add(record.index, offset)
        self.seconds += record.seconds
        if self._keep:
            self.records[record.index] = record
        return record

    def _follow(self, plan: Plan) -> None:
        indices = plan.indices
        self.plan, self._planned = plan, indices if isinstance(indices, range) else frozenset(indices)

    def _extend(self, data: dict[str, Any], plan: Plan) -> None:
        if data.keys() != {"kind", "inputs"} or not are_inputs(data["inputs"]):
            raise RequestError(f"the line must hold the inputs that the run is extended to; got {data!r:.200}")
        self._follow(plan.grown(data["inputs"]))
        self.finished = False

    def _end(self, data: dict[str, Any], plan: Plan) -> None:
        self.finished = True
        seconds = data.get("seconds")
        if data.keys() != {"kind", "inputs", "seconds"} or type(seconds) is not float or not 0 <= seconds < math.inf:
            raise RequestError(f"the end line must hold its inputs and their seconds, and no more; got {data!r:.200}")
        counts = (data.get("inputs"), len(plan.indices), len(self.seen))
        if type(counts[0]) is not int or len(set(counts)) > 1:
            raise RequestError(
                f"the run claims to be complete with {counts[0]} inputs; "
                f"the plan names {counts[1]} and the file holds {counts[2]}{self._not_counted()}"
            )

    def _not_counted(self) -> str:
        """The lines that were refused before, each a finding of its own, in words."""
        if not self._refused:
            return ""
        shown = ", ".join(map(str, self._refused[:SHOWN])) + ", ..." * (len(self._refused) > SHOWN)
        return f"; line {shown} was not counted" if len(self._refused) == 1 else f"; lines {shown} were not counted"
