"""Data sets of Hugging Face's `datasets`, from local files or its hub: images are decoded when asked for.

The library is not imported here: an object can only be its own where it has been imported already.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmax.data.dataset import Dataset
from sigmax.data.items import IMAGE_KEYS, LABEL_KEYS, images_of
from sigmax.data.labels import Classes, numbered
from sigmax.errors import RequestError

_KINDS = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
_IMAGES, _LABELS = ("Image", "Array2D", "Array3D"), ("ClassLabel",)  # features by the names of their classes
UNKNOWN = -1  # what test sets without labels have in their place


def is_hugging_face(value: object) -> bool:
    """Whether it is a data set of that library, in one piece or in splits, in memory or as a stream."""
    library = sys.modules.get("datasets")
    kinds = [getattr(library, name, None) for name in _KINDS]
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def from_hugging_face(source: Any, classes: Classes = None) -> Dataset:
    """One split with an index. Images are the only column of such a feature, else the one called image or img.

    Labels are the only column of class labels, else the one called label or labels; -1 throughout means none.
    """
    if isinstance(source, dict):
        first = next(iter(source), "test")
        raise RequestError(f"expected one split of the data, got {', '.join(source)}; choose one: dataset[{first!r}]")
    if not hasattr(source, "__len__"):
        raise RequestError("expected a data set with an index, got a stream; load it with streaming=False")
    name = str(source.info.dataset_name or source.info.builder_name or "dataset")
    split = str(source.split or "all")
    where = f"{name} {split}"
    image = _column(source, where, _IMAGES, IMAGE_KEYS)
    if image is None:
        raise RequestError(
            f"{where}: no column of images among {', '.join(source.column_names)}; cast one to datasets.Image(), or "
            "rename it to image"
        )
    images = images_of(_Images(source, image, getattr(source.features[image], "dtype", None)), where)
    labels, names = _labels(source, _column(source, where, _LABELS, LABEL_KEYS))
    found, known = numbered(labels, names or classes, where)
    return Dataset(name, split, images, found, known)


@dataclass(frozen=True)
class _Images:
    """One column of a data set; arrays of it come as lists, of the numbers that the feature names."""

    source: Any
    column: str
    dtype: str | None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        value = self.source[index][self.column]
        return (np.array(value, self.dtype),) if isinstance(value, list) else (value,)


def _column(source: Any, where: str, features: Sequence[str], names: Sequence[str]) -> str | None:
    """The column of one of these features, or else of one of these names; refused where there are several."""
    by_feature = [name for name, feature in source.features.items() if type(feature).__name__ in features]
    found = by_feature or [name for name in source.column_names if name in names]
    if len(found) > 1:
        raise RequestError(
            f"{where}: the columns {', '.join(found)} are of one kind; keep one of them: "
            f"dataset.remove_columns({found[1:]})"
        )
    return found[0] if found else None


def _labels(source: Any, column: str | None) -> tuple[list[Any] | None, tuple[str, ...] | None]:
    """The labels, read without their images, and what the classes are called if the data say so."""
    if column is None:
        return None, None
    values = source.select_columns([column]).with_format(None)[:][column]
    names = getattr(source.features[column], "names", None)
    return None if all(value in (None, UNKNOWN) for value in values) else values, tuple(names) if names else None
