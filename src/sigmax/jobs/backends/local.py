"""Certify in this process, group by group, in the order of the plan."""

from collections.abc import Iterator, Sequence

import torch

from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.jobs.backends.work import Certifying, Group
from sigmax.progress import Watch
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.rules.sampling import remade
from sigmax.schemes.scheme import Scheme


class JournalTarget:
    """A run: groups of its plan, results into its journal."""

    def __init__(self, journal: Journal, scheme: Scheme, dataset: Dataset) -> None:
        self.journal, self.scheme, self.dataset = journal, scheme, dataset
        self.total = len(journal.plan.indices)

    @property
    def done(self) -> int:
        """Inputs recorded."""
        return len(self.journal.records)

    def all_groups(self) -> Iterator[Sequence[int]]:
        """What is certified together: cut by the plan alone, so that every vote stands in the same batch."""
        plan, indices = self.journal.plan, self.journal.plan.indices
        size = self.scheme.group(plan.n0 or 1, remade(plan.sampling))
        yield from (indices[first : first + size] for first in range(0, len(indices), size))

    def groups(self) -> Iterator[Sequence[int]]:
        """Those in which a record is missing."""
        yield from (group for group in self.all_groups() if self.missing(group))

    def missing(self, indices: Sequence[int]) -> list[int]:
        """Inputs without a record."""
        return [index for index in indices if index not in self.journal.records]

    def group(self, indices: Sequence[int]) -> Group:
        """The images, and what is recorded of them, so that the others get the votes of an unbroken run."""
        records = self.journal.records
        known = {at: records[index].certificate.stages for at, index in enumerate(indices) if index in records}
        return Group(list(indices), self.dataset.labels_at(indices), self.dataset.pixels(indices), known)

    def take(self, result: Record) -> None:
        """Into the journal."""
        self.journal.write(result)


def certify_into(journal: Journal, scheme: Scheme, dataset: Dataset, watch: Watch) -> None:
    """Record every input of the journal's plan that it lacks, and finish it."""
    job, target = Certifying(scheme, journal.plan), JournalTarget(journal, scheme, dataset)
    watch(target.done, target.total)
    for indices in target.all_groups():
        if not target.missing(indices):
            recall(scheme, dataset, [journal.records[index] for index in indices])
            continue
        for record in _results(job, target.group(indices)):
            target.take(record)
            watch(target.done, target.total)
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
