"""Runs of disjoint inputs become one run: as if it had been certified in one go, but for the seconds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from sigmax.errors import RequestError
from sigmax.files import check_writable
from sigmax.records.inputs import MOST, described
from sigmax.records.journal import refuse_ending, write_all
from sigmax.records.plan import Plan
from sigmax.records.run import Run, read
from sigmax.records.verify import verify

SHOWN = 5  # inputs named in a sentence


def merge(runs: Iterable[str | Path], out: str | Path, *, unfinished: bool = False) -> Run:
    """Write the records of several run files, which stay as they are, as one run; sorted by index.

    The runs must agree in everything that decides a certificate and have no input in common. Each is verified first.
    unfinished: whether to accept runs without their end line; the merged run is then unfinished as well.
    """
    paths, out = [Path(path) for path in runs], Path(out)
    if len(paths) < 2:
        raise RequestError(f"merging needs at least two runs; got {len(paths)}")
    refuse_ending(out)
    check_writable(out)
    parts = [_whole(path, unfinished=unfinished) for path in paths]
    for part in parts[1:]:
        _refuse_another_plan(parts[0], part)
    plan = replace(parts[0].plan, inputs=_united(parts), made_with=_common(part.plan for part in parts))
    records = sorted((record for part in parts for record in part.records), key=lambda record: record.index)
    if out.exists():
        there = read(out)
        if (there.plan, list(there.records)) != (plan, records):
            raise RequestError(f"{out} exists already and is another run; choose another output file")
        return there
    write_all(out, plan, records)
    return read(out)


def _whole(path: Path, *, unfinished: bool) -> Run:
    """A run that can be merged: undamaged, with records that prove their radii, and complete unless it need not be."""
    verdict = verify(path)
    if verdict.imported:
        raise RequestError(
            f"{path} is another tool's log, which names neither its system nor its seed; nothing shows that it is part "
            "of the same run as another"
        )
    if not verdict.holds:
        first = verdict.findings[0]
        raise RequestError(
            f"{path}, line {first.line}: {first.message}. A damaged run is not merged; `sigmax verify` lists all damage"
        )
    run = read(path)
    if not run.finished and not unfinished:
        raise RequestError(
            f"{path} is unfinished ({len(run.records):,} of {run.planned:,} inputs); repeat its command to finish it, "
            "or allow unfinished runs (--unfinished): the merged run is unfinished then"
        )
    if run.plan.in_order:
        raise RequestError(
            f"{path} is a run of {run.plan.method!r}: each answer agrees with a memory of those before it in the same "
            "run, and balls of two memories may contradict each other. Certify all inputs in one run"
        )
    if run.planned > MOST:
        raise RequestError(f"{path} plans {run.planned:,} inputs; at most {MOST:,} can be merged")
    return run


def _refuse_another_plan(first: Run, other: Run) -> None:
    differences = other.plan.differences(first.plan, inputs=False)
    if differences:
        raise RequestError(
            f"{other.path} has another plan than {first.path}: {'; '.join(differences)} (there: {first.path.name}, "
            f"here: {other.path.name}). Only runs that differ in their inputs alone can be merged"
        )


def _united(parts: Sequence[Run]) -> dict[str, int] | list[dict[str, int]]:
    """The inputs of all runs together; refused where two of them share some."""
    planned = [frozenset(part.plan.indices) for part in parts]
    for (one, ours), (other, theirs) in combinations(zip(parts, planned, strict=True), 2):
        shared = sorted(ours & theirs)
        if shared:
            few = ", ".join(map(str, shared[:SHOWN])) + ", ..." * (len(shared) > SHOWN)
            raise RequestError(
                f"{one.path} and {other.path} share {len(shared):,} inputs ({few}); merge runs of different inputs"
            )
    return described(index for indices in planned for index in indices)


def _common(plans: Iterable[Plan]) -> dict[str, Any]:
    """What the runs were made with; where they differ, every value once."""
    made = [plan.made_with for plan in plans]
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for each in made for key in each):
        values: list[Any] = []
        for each in made:
            if key in each and each[key] not in values:
                values.append(each[key])
        found[key] = values[0] if len(values) == 1 else values
    return found
