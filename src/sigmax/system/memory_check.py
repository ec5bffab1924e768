"""A memory held against the data: what the records of a run cannot show by themselves."""

from collections.abc import Iterator

from sigmax.certify.memorized_rule import MEMORY, MemorizedRule
from sigmax.certify.procedure import replay
from sigmax.certify.rebuild import rebuild
from sigmax.certify.sampling import remade
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.radius import Memory
from sigmax.records.run import Run
from sigmax.records.verify import Finding


def memory_findings(run: Run, dataset: Dataset) -> Iterator[Finding]:
    """Where the distances in the records are not the inputs', or a ball was overlooked; nothing if all is right.

    For runs of `Memorized` that `verify` found to hold; the whole memory is built again, in the order of the file.
    """
    rule, plan = rebuild(run.plan.rule), run.plan
    if not isinstance(rule, MemorizedRule):
        raise RequestError(f"{run.path} has no memory to hold against data; `sigmax verify` without data proves it")
    if dataset.fingerprint != plan.data.get("fingerprint"):
        raise RequestError(f"{run.path} is a run of other data ({plan.data.get('name')} {plan.data.get('split')})")
    memory: Memory | None = None
    for line, record in enumerate(run.records, start=2):  # the plan is the first line
        c, x = record.certificate, dataset.pixels([record.index]).ravel()
        memory = memory or Memory(x.size)
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
