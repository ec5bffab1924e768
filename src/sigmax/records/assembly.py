"""A run put together line by line: reading, resuming and verifying agree here on what is whole."""

from typing import Any

from sigmax.errors import RequestError
from sigmax.records.lines import Record, decode
from sigmax.records.plan import Plan


class Assembly:
    """The plan, the records and whether the end was reached; a line that does not fit is refused, and left out."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.records: dict[int, Record] = {}
        self.finished = False

    def take(self, line: bytes) -> Record | None:
        """Add the next line; returns its record, if it holds one."""
        try:
            data = decode(line)
            if self.plan is None:
                self.plan = Plan.from_json(data)
                return None
            return self._take(data, self.plan)
        except RequestError:
            raise
        # A forged line can be whole and still hold anything: whatever breaks on it, it is the line that is wrong.
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise RequestError(f"the line holds a value of the wrong kind: {error!r}") from error

    def _take(self, data: dict[str, Any], plan: Plan) -> Record | None:
        if self.finished:
            raise RequestError("the line stands after the end line")
        if data.get("kind") == "end":
            self._end(data, plan)
            return None
        record = Record.from_json(data)
        if record.index not in plan.indices:
            raise RequestError(f"input {record.index} is not in the plan")
        if record.index in self.records:
            raise RequestError(f"input {record.index} is recorded twice")
        self.records[record.index] = record
        return record

    def _end(self, data: dict[str, Any], plan: Plan) -> None:
        self.finished = True
        counts = (data.get("inputs"), len(plan.indices), len(self.records))
        if type(counts[0]) is not int or len(set(counts)) > 1:
            raise RequestError(
                f"the run claims to be complete with {counts[0]} inputs; "
                f"the plan names {counts[1]} and the file holds {counts[2]}"
            )
