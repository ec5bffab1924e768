"""Predictions for the inputs of a data set, in this process or by workers."""

import secrets
from collections.abc import Sequence

from sigmax.data import as_dataset
from sigmax.jobs.backends.work import Predicting
from sigmax.jobs.backends.workers import ListTarget, chosen, predictions
from sigmax.progress import Watch, shown
from sigmax.rules.certificate import Prediction
from sigmax.schemes.scheme import Scheme


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

    Without a seed a fresh secret one is sampled for all of them. `dataset`, `workers`, `watch` and the like: as for
    `certify_run`.
    """
    helpers = chosen(workers, backend, gpus_per_worker)
    data = as_dataset(dataset, classes=scheme.classes)
    job = Predicting(scheme, n, alpha, secrets.randbits(64) if seed is None else seed)
    if helpers is not None:
        helpers.check(scheme)
        scheme.check(data.pixels(indices[:1]))  # settles batches, and refuses what does not fit, before any start
    with shown(watch, "predict") as advance:
        if helpers is not None:
            return predictions(job, data, indices, advance, helpers)
        target = ListTarget(data, indices)
        advance(0, len(indices))
        for group in target.groups():
            for result in job.results(target.group(group)):
                target.take(result)
            advance(target.done, target.total)
    return [target.found[index] for index in indices]
