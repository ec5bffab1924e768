"""A run held against its data: what the records cannot show by themselves."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sigmax.certify.memorized_rule import MEMORY, MemorizedRule
from sigmax.certify.procedure import replay
from sigmax.certify.rebuild import rebuild
from sigmax.certify.sampling import remade
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.radius import Memory
from sigmax.records.run import Run
from sigmax.records.verify import Finding

FIRST = 2  # line of the first record: the plan is the line before


def data_findings(run: Run, dataset: Dataset) -> Iterator[Finding]:
    """Where labels are not the inputs', and in a run of `Memorized` distances are not; nothing if all is right.

    For runs that `verify` found to hold; refused where the data is not the one that the run names.
    """
    if dataset.fingerprint != run.plan.data.get("fingerprint"):
        raise RequestError(
            f"{run.path} is a run of other data ({run.plan.data.get('name')} {run.plan.data.get('split')})"
        )
    wrong = [*_size_findings(run.plan.rule, dataset), *_label_findings(run, dataset)]
    yield from wrong
    rule = rebuild(run.plan.rule)
    if not wrong and isinstance(rule, MemorizedRule):  # of other inputs nothing could be said
        yield from _memory_findings(run, rule, dataset)


def _size_findings(rule: Mapping[str, Any], dataset: Dataset) -> Iterator[Finding]:
    """Semi-elastic radii shrink with the dimension, which is the images' and nobody's choice."""
    size = math.prod(dataset.shape)
    if rule.get("dim", size) != size:
        yield Finding(1, f"the plan speaks of inputs of {rule['dim']} numbers; those of the data have {size}")
    for expert in rule.get("experts", ()):
        yield from _size_findings(expert, dataset)


def _label_findings(run: Run, dataset: Dataset) -> Iterator[Finding]:
    for line, record in enumerate(run.records, start=FIRST):
        label = int(dataset.labels[record.index]) if record.index < len(dataset) else None
        if record.label != label:
            there = "there is no such input" if label is None else f"its label is {label}"
            yield Finding(line, f"input {record.index} has the label {record.label} here; in the data {there}")


def _memory_findings(run: Run, rule: MemorizedRule, dataset: Dataset) -> Iterator[Finding]:
    """Where a distance is wrong or a ball was overlooked: the memory is built again, in the order of the file."""
    plan, memory = run.plan, Memory(dataset.pixels([0]).size)
    for line, record in enumerate(run.records, start=FIRST):
        c, x = record.certificate, dataset.pixels([record.index]).ravel()
        procedure = rule.certifying(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha, sampling=remade(plan.sampling))
        found, _ = memory.explain(x, *rule.proposed(replay(procedure, c.stages)))
        told = next((stage.radius for stage in c.stages if stage.name == MEMORY), None)
        if told != found.radius or (found.radius and c.predicted != found.label):
            yield Finding(
                line,
                f"input {record.index}: the memory of the inputs before gives class {found.label} within "
                f"{found.radius}; the record says class {c.predicted} within {told}",
            )
        if c.predicted is not None:
            memory.add(x, c.predicted, c.radius)
