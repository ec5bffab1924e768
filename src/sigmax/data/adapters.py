"""Whatever holds images turned into a `Dataset`: arrays, tensors, torch's data sets and loaders, Hugging Face's.

No library is imported here: an object can only be theirs where they have been imported already.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sigmax.data.checks import checked_classes
from sigmax.data.dataset import Dataset
from sigmax.data.hugging_face import from_hugging_face, is_hugging_face
from sigmax.data.items import array_of, images_of, is_image, is_picture, is_tensor, labels_of
from sigmax.data.labels import Classes, named, numbered
from sigmax.data.readers.archive import channels_first
from sigmax.data.sources import load
from sigmax.errors import RequestError

WHOLE = "all"  # the split of data that has no parts
KINDS = (
    "a sigmax.data.Dataset, a source such as 'digits' or 'cifar10:PATH', images, (images, labels), a torch Dataset or "
    "DataLoader, a Hugging Face dataset, or any sequence of (image, label)"
)


def as_dataset(source: object, *, classes: Classes = None, split: str = "test") -> Dataset:
    """The data set that `source` holds; see `KINDS` for what that may be.

    Images are uint8 (0 to 255) or float in [0, 1]; Pillow's, or arrays and tensors of shape (C, H, W), (H, W, C) or
    (H, W) with 1 or 3 channels, channels first where both readings fit. Arrays of many have one axis before.
    Labels are class indices from 0, names, or None; those of a data set are read once, its images when needed.
    classes  the names of the classes in the order of the model's outputs; labels of a source that has them in another
             order are numbered anew. Or how many there are, where the source does not say
    split    of a source that is text
    """
    dataset = _read(source, classes, split)
    return dataset if classes is None or isinstance(classes, int) else _in_order(dataset, classes)


def _read(source: object, classes: Classes, split: str) -> Dataset:
    """The data set with the classes that the source names, else with those given."""
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str):
        return load(source, split)
    if _is_loader(source):
        source = _behind_a_loader(source)
    if is_hugging_face(source):
        return from_hugging_face(source, classes)
    if isinstance(source, tuple) and len(source) == 2 and not is_picture(source[0]):
        return _of_arrays(*source, classes)
    if isinstance(source, np.ndarray) or is_tensor(source):
        return _of_arrays(source, None, classes)
    if _is_indexed(source):
        return _of_items(source, classes)
    raise RequestError(f"expected {KINDS}; got {_described(source)}")


def _in_order(dataset: Dataset, classes: Sequence[str]) -> Dataset:
    """The same images, their labels numbered by these names; classes called by their numbers get the names."""
    where, known = f"{dataset.name} {dataset.split}", dataset.classes
    names = checked_classes(classes if isinstance(classes, str) else tuple(classes), where, labelled=dataset.labelled)
    if names == known:
        return dataset
    if set(known) <= set(names) and len(set(names)) == len(names) and len(set(known)) == len(known):
        labels = None if dataset.labels is None else np.array([names.index(name) for name in known])[dataset.labels]
        return replace(dataset, labels=labels, classes=names)
    if known == named(len(known)) and len(names) >= len(known):
        return replace(dataset, classes=names)
    raise RequestError(
        f"{where}: classes= must name each of the {len(known)} classes of the data once ({_listed(known)}), got "
        f"{len(names)} names ({_listed(names)}); give the names as the data spell them, in the order of the model's "
        "outputs, or leave classes out to keep the order of the data"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def is_data_source(value: object) -> bool:
    """Whether `as_dataset` is needed to read it: not a plain array of inputs."""
    if isinstance(value, np.ndarray) or is_tensor(value):
        return False
    if isinstance(value, list):  # of numbers or of vectors it is a batch
        first = value[0] if value else None
        return isinstance(first, tuple | dict) or is_picture(first) or (is_image(first) and array_of(first).ndim > 1)
    return isinstance(value, Dataset | str | tuple) or is_picture(value) or _is_loader(value) or _is_indexed(value)


def _of_arrays(images: Any, labels: Any, classes: Classes) -> Dataset:
    """Images and labels that are given side by side."""
    where = f"images {WHOLE}"
    found, names = numbered(None if labels is None else array_of(labels), classes, where)
    if isinstance(images, np.ndarray) or is_tensor(images):
        return Dataset("images", WHOLE, channels_first(array_of(images), where), found, names)
    if not _is_indexed(images):
        raise RequestError(f"expected images as an array, a tensor or a sequence of images; got {_described(images)}")
    return Dataset("images", WHOLE, images_of(images, where), found, names)


def _of_items(source: Any, classes: Classes) -> Dataset:
    name = type(source).__name__
    where = f"{name} {WHOLE}"
    images = images_of(source, where)
    found, names = numbered(labels_of(source, where), _class_names(source) or classes, where)
    return Dataset(name, WHOLE, images, found, names)


def _class_names(source: Any) -> tuple[str, ...] | None:
    """The names that a data set of torchvision's, or the part of one (`Subset`), gives its classes."""
    names = getattr(source, "classes", None)
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    inner = getattr(source, "dataset", None)
    return None if inner is None else _class_names(inner)


def _is_indexed(value: object) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def _torch_data(name: str) -> Any:
    return getattr(sys.modules.get("torch.utils.data"), name, ())


def _is_loader(value: object) -> bool:
    return isinstance(value, _torch_data("DataLoader"))


def _behind_a_loader(loader: Any) -> object:
    """The data set of a loader, which must give its items as they are and in their order: an index names an input."""
    if isinstance(loader.dataset, _torch_data("IterableDataset")):
        raise RequestError(
            "expected a DataLoader of a data set with an index; got one of an IterableDataset. Read it into arrays and "
            "give (images, labels)"
        )
    in_order = type(loader.sampler) is _torch_data("SequentialSampler")
    if not in_order or type(loader.batch_sampler) not in (_torch_data("BatchSampler"), type(None)):
        raise RequestError(
            f"the DataLoader does not go through its data in order ({type(loader.sampler).__name__}), so an index "
            "would name another image each time; use shuffle=False, or give the data set itself"
        )
    if loader.collate_fn not in (_torch_data("default_collate"), _torch_data("default_convert")):
        raise RequestError(
            "the DataLoader has a collate_fn of its own, which may change the images; give the data set itself, with "
            "items (image, label)"
        )
    inner: object = loader.dataset
    return inner


def _described(value: object) -> str:
    if is_picture(value):
        return "a single image; put it into a list, [image]"
    if isinstance(value, Path):
        return f"the path {value}; write a source, such as folder:{value} or npz:{value}"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} with the keys {', '.join(map(str, value))[:80]}; choose one of its parts"
    if hasattr(value, "__iter__"):
        return f"{type(value).__name__}, which has no index; read it into arrays and give (images, labels)"
    return type(value).__name__
