"""Labels as they come, numbers or names, turned into indices of named classes; or none at all."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError

Array = NDArray[Any]
Classes = Sequence[str] | int | None  # names by label; or how many there are; or unknown

MOST_CLASSES = 100_000  # a larger label without class names is a mistake, not a class
ENOUGH = 10  # labels a class, from which on a class without any is worth a warning although the number is known


def numbered(labels: object, classes: Classes, where: str) -> tuple[Array | None, tuple[str, ...]]:
    """The labels as indices, and the names of the classes; no labels remain none.

    Text is numbered by the names in `classes`, or by the labels' own names, sorted, with a warning: a model's outputs
    may be in another order. Numbers are indices already; without names the classes are called by their numbers, as many
    as `classes` or else the largest label says.
    """
    if labels is None:
        return None, named(classes)
    array = np.asarray(labels)
    if array.dtype.kind in "SU" and array.ndim == 1:
        return _of_text(np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array, classes, where)
    if array.ndim != 1 or not array.size or not np.issubdtype(array.dtype, np.integer):
        return array, named(classes) or ("0",)  # for the data set to refuse
    if classes is None or isinstance(classes, int):
        return array, _counted(array, classes, where)
    return array, tuple(classes)


def named(classes: Classes) -> tuple[str, ...]:
    """The names of the classes, numbers where they have none; empty where nothing is known of them."""
    if classes is None:
        return ()
    return tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(classes)


def _of_text(labels: Array, classes: Classes, where: str) -> tuple[Array, tuple[str, ...]]:
    found = [str(name) for name in np.unique(labels)]
    if classes is None or isinstance(classes, int):
        _check_names(found, classes, where)
        names = tuple(found)
        _warn_of_order(names, where)
    else:
        names = tuple(classes)
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise RequestError(
            f"{where}: no class is called {unknown[0]!r}, which is the label of an image; the classes are "
            f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}: correct the labels or name all classes"
        )
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[str(name)] for name in labels], np.int64), names


def _check_names(found: list[str], count: int | None, where: str) -> None:
    """Refuse names whose order would number the classes wrongly."""
    if all(name.strip().lstrip("+-").isdigit() for name in found):
        raise RequestError(
            f"{where}: labels are numbers written as text ({found[0]!r}), whose alphabetical order is another; "
            "use labels.astype('int64')"
        )
    if count is not None and len(found) != count:
        raise RequestError(
            f"{where}: the labels name {len(found)} classes ({', '.join(found[:5])}, ...), and there are "
            f"{count} classes, so their order does not say which class is which; name all classes in order "
            "(classes=[...] of sigmax.data.as_dataset, the array classes of an npz file)"
        )


def _warn_of_order(names: Sequence[str], where: str) -> None:
    """Say how names were numbered: where the model's outputs are in another order, every answer counts as wrong."""
    listed = ", ".join(f"{place} {name}" for place, name in enumerate(names[:3])) + (", ..." if len(names) > 3 else "")
    warnings.warn(
        f"{where}: the labels are names and were numbered alphabetically ({listed}). Name all classes in the order of "
        "the model's outputs (classes=[...] of sigmax.data.as_dataset, the array classes of an npz file) and this is "
        "not said again",
        stacklevel=2,
    )


def _counted(labels: Array, count: int | None, where: str) -> tuple[str, ...]:
    largest, least = int(labels.max()), int(labels.min())
    if count is None and largest >= MOST_CLASSES:
        raise RequestError(
            f"{where}: labels must be class indices counted from 0, but one is {largest}; number the "
            "classes, or name them in the array classes"
        )
    if count is not None and largest == count and least >= 1:
        raise RequestError(
            f"{where}: labels go from {least} to {largest}, and there are {count} classes: they are counted from "
            "1; subtract 1 (labels - 1)"
        )
    if count is None or len(labels) >= ENOUGH * count:
        warn_of_gaps(labels, where)
    return named(max(1, largest + 1) if count is None else count)


def warn_of_gaps(labels: Array, where: str) -> None:
    """Warn where classes below the largest label have no input: the labels may not count from 0, or not all."""
    present = set(labels.tolist())
    missing = [label for label in range(max(present) + 1) if label not in present]
    if not missing or min(present) < 0:
        return
    listed = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
    fix = (
        "if they are counted from 1, subtract 1 (labels - 1)"
        if missing == [0]
        else "if the classes are numbered with gaps, number them again: names, labels = numpy.unique(labels, "
        "return_inverse=True)"
    )
    warnings.warn(
        f"{where}: no label is {listed}, but one is {max(present)}. Labels are class indices from 0; {fix}. If the "
        "class has no image here, name all classes (classes=[...]) and this is not said again",
        stacklevel=2,
    )
