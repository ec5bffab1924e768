"""Several workers for one job: which backend, how many, and what is done with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.jobs.backends import local
from sigmax.jobs.backends.on_ray import Actors, imported
from sigmax.jobs.backends.processes import Processes
from sigmax.jobs.backends.pull import ATTEMPTS, Driver, Pool, Target
from sigmax.jobs.backends.work import Certifying, Predicting
from sigmax.progress import Watch
from sigmax.records.failed import FailedInput, forget_failed, keep_failed
from sigmax.records.journal import Journal
from sigmax.schemes.scheme import Scheme

LOCAL, RAY = "local", "ray"
NAMED = 10  # failed inputs that an error lists


@dataclass(frozen=True)
class Workers:
    """Who does the work. `count`: of workers; on Ray None means as many as the cluster has room for.

    gpus_per_worker: None means one GPU each where the networks run on GPUs, else none.
    """

    count: int | None
    gpus_per_worker: float | None = None
    ray: bool = False
    address: str | None = None

    def check(self, scheme: Scheme) -> None:
        """Raise where the scheme cannot be shared by workers, before anything starts."""
        if local.has_memory(scheme):
            raise RequestError(
                f"{type(scheme).__name__} has a memory: each answer depends on those before it, so its inputs cannot "
                "be shared by workers; leave out workers, or certify with a scheme without a memory"
            )
        if self.ray:
            imported()

    def pool(self, job: Certifying | Predicting) -> Pool:
        """The workers, started."""
        gpus = self.gpus_per_worker
        if gpus is None:
            gpus = float(any(voter.device.type == "cuda" for voter in job.scheme.voters.values()))
        if self.ray:
            return Actors(job, self.count, gpus_per_worker=gpus, address=self.address)
        assert self.count is not None
        return Processes(job, self.count, gpus_per_worker=gpus)


def chosen(workers: int | None, backend: str, gpus_per_worker: float | None) -> Workers | None:
    """Who a caller asks to do the work; None: this process."""
    kind, _, address = backend.partition(":")
    if kind not in (LOCAL, RAY) or (kind == LOCAL and address):
        raise RequestError(f"work can be done on 'local', 'ray' or 'ray:ADDRESS'; got {backend!r}")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise RequestError(f"workers must be a whole number of at least 1; got {workers!r}")
    if gpus_per_worker is not None and not 0 <= gpus_per_worker <= 1:
        raise RequestError(
            f"gpus_per_worker must be from 0 to 1 (a worker uses one GPU, or shares it); got {gpus_per_worker!r}"
        )
    if kind == LOCAL and workers is None:
        if gpus_per_worker is not None:
            raise RequestError("gpus_per_worker needs workers: say how many")
        return None
    return Workers(workers, gpus_per_worker, kind == RAY, address or None)


def certify_into(journal: Journal, scheme: Scheme, dataset: Dataset, watch: Watch, workers: Workers) -> None:
    """Record every input that the journal lacks by means of workers, and finish it; only this process writes.

    Inputs that fail are not recorded: the run stays unfinished, a report beside it names them with their errors, and
    the next attempt tries them again.
    """
    target = local.JournalTarget(journal, scheme, dataset)
    failed: list[FailedInput] = []
    if target.done < target.total:
        with workers.pool(Certifying(scheme, journal.plan)) as pool:
            try:
                Driver(target, pool, watch, failed).run()
            finally:
                kept = keep_failed(journal.path, failed)
    if failed:
        raise RunError(f"{_failed(failed, target.total)} The others are in {journal.path}, the errors in {kept}.")
    forget_failed(journal.path)
    journal.finish()


def results_of(job: Predicting, target: Target, watch: Watch, workers: Workers) -> None:
    """Answer every input of the target by means of workers."""
    with workers.pool(job) as pool:
        failed = Driver(target, pool, watch).run()
    if failed:
        raise RunError(_failed(failed, target.total))


def _failed(failed: Sequence[FailedInput], total: int) -> str:
    named = ", ".join(str(failure.index) for failure in failed[:NAMED]) + ", ..." * (len(failed) > NAMED)
    last = failed[-1]
    return (
        f"{len(failed)} of {total} inputs failed {ATTEMPTS} times each and have no result: {named}. The last error: "
        f"{last.error} ({last.worker}). Repeat the command to try them again."
    )
