"""Reading run files back."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sigmax.errors import RequestError
from sigmax.files import unzipped_lines
from sigmax.numbers import is_number
from sigmax.radius.noise import level_in
from sigmax.records.assembly import Assembly
from sigmax.records.inputs import Inputs, indices
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.rules.certificate import Certificate
from sigmax.rules.registry import rebuild
from sigmax.rules.sampling import remade

if TYPE_CHECKING:
    import pandas as pd

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Run:
    """A run as it stands in its file: the plan, the records so far, and whether it is complete."""

    path: Path
    plan: Plan
    records: tuple[Record, ...]
    finished: bool

    def __repr__(self) -> str:
        return f"Run({self.path}: {self.plan.method}, {len(self.records)} of {self.planned} inputs)"

    def _repr_html_(self) -> str:
        from sigmax.records.notebook import run_html

        return run_html(self)

    @property
    def planned(self) -> int:
        """How many inputs the plan names."""
        return len(self.plan.indices)

    @property
    def labelled(self) -> bool:
        """Whether the true classes of its inputs are known."""
        return self.plan.labelled

    def only(self, inputs: Inputs) -> "Run":
        """The same run with no more than these of its inputs, all of which must be there."""
        members = frozenset(indices(inputs))
        kept = tuple(record for record in self.records if record.index in members)
        if len(kept) < len(members):
            raise RequestError(f"{self.path} lacks {len(members) - len(kept)} of {len(members)} inputs; certify them")
        return replace(self, plan=replace(self.plan, inputs=inputs), records=kept, finished=True)

    def frame(self) -> "pd.DataFrame":
        """One row an input, by index. `label`: the true class; `predicted` is -1 and `radius` 0.0 when abstaining.

        Without labels `label` and `correct` are missing values (<NA>), never numbers: an abstention would equal them.
        `sigma`: the noise level of the classifier that answered; `limited_by`: the stage that limits the radius.
        """
        import pandas as pd

        columns = "index label predicted radius correct outcome sigma samples seconds limited_by".split()
        ordered = sorted(self.records, key=lambda record: record.index)
        frame = pd.DataFrame([self._row(record) for record in ordered], columns=columns)
        return frame if self.labelled else frame.astype({"label": "Int64", "correct": "boolean"})

    def _row(self, record: Record) -> tuple[object, ...]:
        c = record.certificate
        return (
            record.index,
            record.label,
            -1 if c.predicted is None else c.predicted,
            c.radius,
            record.correct,
            c.outcome.name.lower(),
            self.sigma_of(c),
            c.samples,
            record.seconds,
            c.limited_by,
        )

    def sigma_of(self, certificate: Certificate) -> float:
        """The noise of the classifier that answered; NaN where none was asked."""
        return sigma_of(self.plan, certificate)


def sigma_of(plan: Plan, certificate: Certificate) -> float:
    """The noise of the classifier that answered in a run of this plan; NaN where none was asked."""
    if not certificate.stages:
        found = level_in(plan.rule)
        return math.nan if found is None else found[1]
    return math.nan if certificate.sigma is None else certificate.sigma


def read(path: str | Path) -> Run:
    """The run in a journal, plain or gzipped, finished or not. A torn last line is left out."""
    path = Path(path)
    run = Assembly()
    deque(_taken(path, run), maxlen=0)
    if run.plan is None:
        raise RequestError(f"{path} holds no whole line; expected a run file written by `sigmax certify`")
    _refuse_unknown_rule(path, run.plan)
    return Run(path, run.plan, tuple(run.records.values()), run.finished)


def _refuse_unknown_rule(path: Path, plan: Plan) -> None:
    """Raise unless the plan's rule and sampling are such: reports and tables take their values as they are."""
    try:
        remade(plan.sampling)
        if not plan.imported:
            rebuild(plan.rule)
        elif not is_number(plan.rule.get("sigma")):
            raise RequestError(f"the plan of an imported log must name its sigma; got {plan.rule.get('sigma')!r:.80}")
    except RequestError as error:
        raise RequestError(f"{path}, line 1: {error}. `sigmax verify` lists all damage") from error


def each_record(path: Path) -> Iterator[Record]:
    """The records of a run file, one at a time; keeps none of them."""
    yield from (record for _, record in _taken(path, Assembly(keep=False)) if record is not None)


def planned_inputs(path: Path) -> int:
    """How many inputs the run in a file is to have; keeps none of its records."""
    run = Assembly(keep=False)
    deque(_taken(path, run), maxlen=0)
    return len(run.plan.indices) if run.plan else 0


def numbered_records(run: Run) -> Iterator[tuple[int, Record]]:
    """The records, each with the line of the file that it stands in."""
    taken = _taken(run.path, Assembly(keep=False))
    lines = {record.index: number for number, record in taken if record is not None}
    yield from ((lines[record.index], record) for record in run.records)


def _taken(path: Path, run: Assembly) -> Iterator[tuple[int, Record | None]]:
    """The number and the record, if it holds one, of each line; the first that does not fit ends the reading."""
    for number, line in numbered_lines(path):
        try:
            yield number, run.take(line)
        except RequestError as error:
            raise RequestError(f"{path}, line {number}: {error}. `sigmax verify` lists all damage") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a run file with their numbers; what follows the last newline is torn and left out."""
    for number, line in enumerate(_lines(path), start=1):
        if line.endswith(b"\n"):
            yield number, line[:-1]


def torn(path: Path) -> bool:
    """Whether something follows the last newline: a line that was being written when the run was cut."""
    return not b"".join(deque(_lines(path), maxlen=1)).endswith(b"\n")


def _lines(path: Path) -> Iterator[bytes]:
    """The lines as they stand in the file, one at a time; a gzipped file is unpacked on the way."""
    try:
        with path.open("rb") as file:
            zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            yield from unzipped_lines(path, file) if zipped else file
    except OSError as error:
        raise RequestError(f"cannot read the run file {path}: {error}") from error
