"""Runs for other tools: the field's table of radii, and parquet with the counts of every stage."""

import json
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.records.certificate import Outcome, leading
from sigmax.records.lines import Record
from sigmax.records.rounding import down
from sigmax.records.run import Run

if TYPE_CHECKING:
    import pyarrow as pa

RADIUS_DECIMALS = 6
_HEADER = "idx label predict radius correct time".split()
_CASCADE_HEADER = "idx label predict radius r_neg correct pred_uc corr_uc stage time".split()


def export_tsv(run: Run, path: str | Path) -> None:
    """Write the run as the field's log: -1 is an abstention, time a timedelta.

    Radii are rounded down to six decimals, where the field prints three digits rounded to nearest: the file never
    claims more than the run. A cascade has its authors' columns: -2 where a scale was undecided; r_neg, how far the
    scales before leave the input to the last; pred_uc and corr_uc, the class by plain shares of the votes; stage, 0
    for the largest sigma.
    """
    header, cells = (
        (_HEADER, _tsv_cells) if run.plan.method != "multiscale" else (_CASCADE_HEADER, _cascade_cells(run))
    )
    ordered = sorted(run.records, key=lambda record: record.index)  # a run has them as they were finished
    lines = ["\t".join(header), *("\t".join(cells(record)) for record in ordered)]
    with written_whole(Path(path)) as draft:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _tsv_cells(record: Record) -> tuple[str, ...]:
    c = record.certificate
    return (
        str(record.index),
        str(record.label),
        str(-1 if c.predicted is None else c.predicted),
        down(c.radius, RADIUS_DECIMALS),
        str(int(record.correct)),
        str(timedelta(seconds=record.seconds)),
    )


def _cascade_cells(run: Run) -> Callable[[Record], tuple[str, ...]]:
    marks = list(reversed(run.plan.rule["thresholds"]))

    def cells(record: Record) -> tuple[str, ...]:
        index, label, predicted, radius, correct, seconds = _tsv_cells(record)
        c = record.certificate
        asked = [stage for stage in c.stages if stage.name.endswith("estimation")]
        passed = min((stage.radius or 0.0 for stage in asked[:-1]), default=math.inf)
        shares = [max(stage.counts) / stage.n > mark for stage, mark in zip(asked, marks, strict=False)]
        plain = leading(asked[shares.index(True) if any(shares) else -1].counts)[0]
        if c.outcome is Outcome.SCALE_UNDECIDED:
            predicted = "-2"
        far = down(passed, RADIUS_DECIMALS) if passed < math.inf else "inf"
        told = index, label, predicted, radius, far, correct, str(plain), str(int(plain == record.label))
        return (*told, str(len(asked) - 1), seconds)

    return cells


def export_parquet(run: Run, path: str | Path) -> None:
    """Write `run.frame()` with every digit, and each stage's counts and bounds as `<stage>_counts` and so on.

    A stage that an input did not reach is null. The plan goes along as JSON in the file's metadata, under
    `sigmax.plan`.
    """
    pa, parquet = _pyarrow()
    table = pa.Table.from_pandas(run.frame(), preserve_index=False)
    for name, kind, values in _stage_columns(run, pa):
        table = table.append_column(name, pa.array(values, type=kind))
    plan = json.dumps(run.plan.to_json())
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"sigmax.plan": plan.encode()})
    with written_whole(Path(path)) as draft:
        parquet.write_table(table, draft)


def _stage_columns(run: Run, pa: Any) -> Iterator[tuple[str, "pa.DataType", list[object]]]:
    """Name, type and values of every column that a stage adds; types are named since a column may be all null."""
    stages = [{stage.name: stage for stage in record.certificate.stages} for record in run.records]
    names = dict.fromkeys(name for by_name in stages for name in by_name)
    kinds = {"n": pa.int64(), "counts": pa.list_(pa.int64())}
    for name in names:
        for field in ("sigma", "n", "counts", "alpha", "lower", "upper", "radius"):
            values = [getattr(by_name.get(name), field, None) for by_name in stages]
            yield f"{name}_{field}", kinds.get(field, pa.float64()), values


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RequestError("writing parquet needs pyarrow: pip install 'sigmax[parquet]'") from error
    return pyarrow, pyarrow.parquet
