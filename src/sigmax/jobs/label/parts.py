"""Labels of parts of the data, each labelled by experts that were not trained on it.

An expert certifies the images it was trained on further than new ones, and most where it has little noise. A router
taught by such labels sends too much to that expert. So the data is divided: experts are trained on one part, and
label another.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.label.folder import shuffled
from sigmax.jobs.label.labels import Ints, Labels

FOLDS = 5  # with the seed: which inputs are in which fold


def folds_of(count: int, folds: int, seed: int) -> list[Ints]:
    """Rising indices of each fold; folds differ by one input at most."""
    if not 2 <= folds <= count:
        raise RequestError(f"{count} inputs can be divided into 2 to {count} folds; got {folds}")
    order = shuffled(count, [seed, FOLDS])
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def set_aside(count: int, share: float, seed: int) -> tuple[Ints, Ints]:
    """Rising indices of a random share, and of the rest."""
    aside = round(share * count)
    if not 0 < aside < count:
        raise RequestError(
            f"a share of {share:g} of {count} inputs sets {aside} aside and leaves {count - aside}, and both need "
            "some; choose another share"
        )
    order = shuffled(count, [seed, FOLDS])
    return np.sort(order[:aside]), np.sort(order[aside:])


def rest_of(count: int, indices: Ints) -> Ints:
    """Rising indices of all others."""
    return np.setdiff1d(np.arange(count, dtype=np.int64), indices)


def joined(dataset: Dataset, parts: Sequence[tuple[Ints, Labels]], experts: Sequence[str]) -> Labels:
    """Labels of the whole data set from those of parts of it, each given with where its inputs stand in the whole.

    `experts`: fingerprints of the experts that the labels are to stand for, in the order of those who labelled.
    """
    for indices, labels in parts:
        expected = dataset.take(indices).fingerprint
        if labels.data["fingerprint"] != expected or len(labels.experts) != len(experts):
            raise RequestError(
                f"these labels are of {labels.data['name']} {labels.data['split']} (fingerprint "
                f"{labels.data['fingerprint']}) and {len(labels.experts)} experts, not of the part of {dataset!r} "
                f"with fingerprint {expected} and {len(experts)} experts; label that part"
            )
    where = np.concatenate([indices[labels.indices] for indices, labels in parts])
    order = np.argsort(where)
    data: Mapping[str, Any] = {
        "name": dataset.name,
        "split": dataset.split,
        "fingerprint": dataset.fingerprint,
        "inputs": len(dataset),
        "labelled": len(where),
    }
    return Labels(
        radii=np.concatenate([labels.radii for _, labels in parts])[order],
        indices=where[order],
        labels=np.concatenate([labels.labels for _, labels in parts])[order],
        sigmas=parts[0][1].sigmas,
        experts=tuple(experts),
        data=data,
    )
