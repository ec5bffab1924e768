"""Runs for other tools: the table that published logs are, csv, and parquet with the counts of every stage."""

import json
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sigmax.errors import RequestError, needs
from sigmax.files import written_whole
from sigmax.records.lines import Record
from sigmax.records.rounding import down
from sigmax.records.run import Run
from sigmax.rules.registry import entry

if TYPE_CHECKING:
    import pyarrow as pa

RADIUS_DECIMALS = 6


def export_tsv(run: Run, path: str | Path) -> None:
    """Write the run as published logs are: -1 is an abstention, time a timedelta; without labels their cells are empty.

    Radii are rounded down to six decimals, so that the file never claims more than the run; those of an imported log
    are printed as they were. A scheme with levels has the columns of Jeong & Shin's: -2 where a level was undecided;
    r_neg, the exclusion radius of the levels that deferred; pred_uc and corr_uc, the class by plain shares of the
    votes; stage, the level that answered or was undecided, 0 for the first.
    """
    ordered = sorted(run.records, key=lambda record: record.index)  # a run has them as they were finished
    if not ordered:
        raise RequestError(f"{run.path} holds no certified input yet; certify some before exporting it")
    # Of an imported log nobody knows more than its sigma, and that only where each row has one.
    by_row = not run.plan.imported or any(record.certificate.stages for record in ordered)
    rows = [{**_published(run, record), **(_further(run, record) if by_row else {})} for record in ordered]
    with written_whole(Path(path)) as draft:
        lines = [rows[0].keys(), *(map(str, row.values()) for row in rows)]
        draft.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def _published(run: Run, record: Record) -> dict[str, object]:
    """The columns of published logs."""
    c, imported = record.certificate, run.plan.imported
    tried = None if imported else entry(run.plan.method).levels_tried
    correct = "" if record.correct is None else int(record.correct)
    cells = {
        "idx": record.index,
        "label": "" if record.label is None else record.label,
        "predict": -1 if c.predicted is None else c.predicted,
        "radius": repr(c.radius) if imported else down(c.radius, RADIUS_DECIMALS),
    }
    if tried is None:
        cells |= {"correct": correct}
    else:
        went = tried(run.plan.rule, c)
        uncertified = -1 if went.uncertified is None else went.uncertified
        cells |= {
            "predict": -2 if went.undecided else cells["predict"],
            "r_neg": down(went.excluded, RADIUS_DECIMALS) if went.excluded < math.inf else "inf",
            "correct": correct,
            "pred_uc": uncertified,
            "corr_uc": "" if record.label is None else int(uncertified == record.label),
            "stage": went.ended,
        }
    return {**cells, "time": timedelta(seconds=record.seconds)}


def _further(run: Run, record: Record) -> dict[str, object]:
    """The columns that published logs do not have: parameters as they are, with every digit."""
    sigma = run.sigma_of(record.certificate)
    cells = {"sigma": "" if math.isnan(sigma) else repr(sigma)}
    if run.plan.imported:
        return {**cells}
    return {**cells, "samples": record.certificate.samples, "limited_by": record.certificate.limited_by or ""}


def export_csv(run: Run, path: str | Path) -> None:
    """Write `run.frame()` with every digit as comma-separated values."""
    with written_whole(Path(path)) as draft:
        run.frame().to_csv(draft, index=False)


def export_parquet(run: Run, path: str | Path) -> None:
    """Write `run.frame()` and each stage's counts and bounds as `<stage>_counts` and so on, null where not reached.

    The plan goes along as JSON in the file's metadata, under `sigmax.plan`.
    """
    pa, parquet = (needs(name, extra="parquet", why="to write parquet") for name in ("pyarrow", "pyarrow.parquet"))
    table = pa.Table.from_pandas(run.frame(), preserve_index=False)
    for name, kind, values in _stage_columns(run, pa):
        table = table.append_column(name, pa.array(values, type=kind))
    plan = json.dumps(run.plan.to_json())
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"sigmax.plan": plan.encode()})
    with written_whole(Path(path)) as draft:
        parquet.write_table(table, draft)


def _stage_columns(run: Run, pa: Any) -> Iterator[tuple[str, "pa.DataType", list[object]]]:
    """Name, type and values of every column that a stage adds; types are named since a column may be all null."""
    ordered = sorted(run.records, key=lambda record: record.index)  # as `run.frame()` has them
    stages = [{stage.name: stage for stage in record.certificate.stages} for record in ordered]
    names = dict.fromkeys(name for by_name in stages for name in by_name)
    kinds = {"n": pa.int64(), "counts": pa.list_(pa.int64())}
    for name in names:
        for column in ("sigma", "n", "counts", "alpha", "lower", "upper", "radius"):
            values = [getattr(by_name.get(name), column, None) for by_name in stages]
            yield f"{name}_{column}", kinds.get(column, pa.float64()), values
