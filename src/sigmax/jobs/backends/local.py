"""Certify in this process, group by group, in the order of the plan."""

from collections.abc import Iterator, Sequence

import torch

from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.jobs.backends.work import Certifying, Group
from sigmax.progress import Watch
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.rules.sampling import remade
from sigmax.schemes.scheme import Scheme


def certify_into(journal: Journal, scheme: Scheme, dataset: Dataset, watch: Watch) -> None:
    """Record every input of the journal's plan that it lacks, and finish it."""
    job, total = Certifying(scheme, journal.plan), len(journal.plan.indices)
    watch(len(journal.records), total)
    for indices in groups(journal.plan, scheme):
        if all(index in journal.records for index in indices):
            recall(scheme, dataset, [journal.records[index] for index in indices])
            continue
        for record in _results(job, group(journal, dataset, indices)):
            journal.write(record)
            watch(len(journal.records), total)
    journal.finish()


def _results(job: Certifying, asked: Group) -> Iterator[Record]:
    """The records; what the model raises on some inputs ends the run in words that say how to go on."""
    try:
        yield from job.results(asked)
    except Exception as error:  # the model is the user's code
        said = str(error) if isinstance(error, RequestError | RunError) else f"{type(error).__name__}: {error}"
        smaller = " A smaller --batch needs less memory." if isinstance(error, torch.OutOfMemoryError) else ""
        raise RunError(
            f"{said} (while inputs {asked.indices[0]} to {asked.indices[-1]} were certified).{smaller} What is "
            "recorded is safe. Repeat the command to go on once the cause is mended; with --workers 1 (workers=1) "
            "inputs that fail are left out, and their errors kept in a file"
        ) from error


def groups(plan: Plan, scheme: Scheme) -> Iterator[Sequence[int]]:
    """The inputs that are certified together: cut by the plan alone, whatever is already done."""
    size, indices = scheme.group(plan.n0 or 1, remade(plan.sampling)), plan.indices
    yield from (indices[first : first + size] for first in range(0, len(indices), size))


def group(journal: Journal, dataset: Dataset, indices: Sequence[int]) -> Group:
    """Inputs of a run with what is recorded of them, so that the others get the votes of an unbroken run."""
    known = {
        position: journal.records[index].certificate.stages
        for position, index in enumerate(indices)
        if index in journal.records
    }
    indices = list(indices)
    return Group(indices, dataset.labels_at(indices), dataset.pixels(indices), known)


def has_memory(scheme: Scheme) -> bool:
    """Whether an answer depends on the answers before."""
    return type(scheme).recall is not Scheme.recall


def recall(scheme: Scheme, dataset: Dataset, records: Sequence[Record]) -> None:
    """Give the scheme, if it has a memory, what was certified before."""
    if not has_memory(scheme):
        return
    pixels = torch.from_numpy(dataset.pixels([record.index for record in records]))
    for x, record in zip(pixels, records, strict=True):
        scheme.recall(x, record.certificate)
