"""Images that are not trained on: a share held out of the data, or another split of it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.data import Dataset
from sigmax.errors import RequestError

STREAM = 3  # with the seed: which images are held out

Indices = NDArray[np.int64]


class Division(NamedTuple):
    """A data set divided."""

    training: Dataset
    held_out: Dataset | None
    plan: Mapping[str, Any]  # what of it decides the result: a share that is not trained on


def split(count: int, share: float, seed: int, *, name: str = "validation") -> tuple[Indices, Indices]:
    """Which of `count` images are held out, in random order, and which are trained on; the same everywhere."""
    if not 0 < share < 1:
        raise RequestError(f"{name}: expected a share between 0 and 1, got {share!r}; 0.1 holds out a tenth")
    aside = round(share * count)
    if not 0 < aside < count:
        raise RequestError(
            f"{name}={share:g} of {count} images leaves {aside} to check on and {count - aside} to train on, "
            "and both need some; choose another share"
        )
    order = np.argsort(np.random.SFC64([seed, STREAM]).random_raw(count), kind="stable").astype(np.int64)
    return order[:aside], np.sort(order[aside:])


def divided(dataset: Dataset, validation: float | Dataset, seed: int) -> Division:
    """The images to train on and those to check on: a share of the data, another split of it, or none (0)."""
    if isinstance(validation, Dataset):
        _refuse_other_kind(validation, dataset)
        return Division(dataset, validation, {})
    if validation == 0:
        return Division(dataset, None, {})
    held, training = split(len(dataset), validation, seed)
    return Division(dataset.take(training), dataset.take(held), {"validation": float(validation)})


def first(dataset: Dataset, count: int) -> Dataset:
    """At most so many images."""
    return dataset.take(np.arange(min(count, len(dataset))))


def _refuse_other_kind(held: Dataset, training: Dataset) -> None:
    """Raise unless images of the two sets have the same shape and classes."""
    for what, theirs, ours in (("shape", held.shape, training.shape), ("classes", held.classes, training.classes)):
        if theirs != ours:
            raise RequestError(
                f"the images to check on have other {what} than those to train on: {theirs} and {ours}; "
                "give a split of the same data"
            )
