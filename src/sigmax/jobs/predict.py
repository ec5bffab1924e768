"""Predictions for the inputs of a data set, in this process or by workers."""

import secrets
from collections.abc import Iterator, Sequence

from sigmax.data import Dataset, as_dataset
from sigmax.jobs.backends.work import Group, Predicted, Predicting
from sigmax.jobs.backends.workers import chosen, results_of
from sigmax.progress import Watch, shown
from sigmax.rules.certificate import Prediction
from sigmax.schemes.scheme import Scheme, expect_scheme

TOGETHER = 64  # inputs of a group; predictions of few samples fill batches only together


def predict_all(
    scheme: Scheme,
    dataset: object,
    indices: Sequence[int],
    *,
    n: int = 1_000,
    alpha: float = 1e-3,
    seed: int | None = None,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    backend: str = "local",
    watch: Watch | None = None,
) -> list[Prediction]:
    """One prediction for each of the inputs at `indices`, as `Scheme.predict` makes them; an input's id is its index.

    Without a seed a fresh secret one is sampled for all of them. Other options: as for `certify_run`.
    """
    expect_scheme(scheme)
    helpers = chosen(workers, backend, gpus_per_worker)
    data = as_dataset(dataset, classes=scheme.classes)
    job = Predicting(scheme, n, alpha, secrets.randbits(64) if seed is None else seed)
    if helpers is not None:
        helpers.check(scheme)
        scheme.check(data.pixels(indices[:1]))  # settles batches, and refuses what does not fit, before any start
    target = ListTarget(data, indices)
    with shown(watch, "predict") as advance:
        if helpers is not None:
            results_of(job, target, advance, helpers)
        else:
            advance(0, target.total)
            for group in target.groups():
                for result in job.results(target.group(group)):
                    target.take(result)
                advance(target.done, target.total)
    return [target.found[index] for index in indices]


class ListTarget:
    """Predictions in memory."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices, self.total = dataset, indices, len(indices)
        self.found: dict[int, Prediction] = {}

    @property
    def done(self) -> int:
        """Inputs answered."""
        return len(self.found)

    def groups(self) -> Iterator[Sequence[int]]:
        """So many at a time."""
        yield from (self.indices[i : i + TOGETHER] for i in range(0, self.total, TOGETHER))

    def missing(self, indices: Sequence[int]) -> list[int]:
        """Inputs without a prediction."""
        return [index for index in indices if index not in self.found]

    def group(self, indices: Sequence[int]) -> Group:
        """The images."""
        return Group(list(indices), [], self.dataset.pixels(indices))

    def take(self, result: Predicted) -> None:
        """Into the list."""
        self.found[result.index] = result.prediction
