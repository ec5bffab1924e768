"""Image folders: one folder a class, as ImageNet is usually laid out.

PATH/<split>/<class>/*.png      or, with a single split,      PATH/<class>/*.png
"""

from pathlib import Path

import numpy as np

from sigmax.data.dataset import Dataset
from sigmax.data.pictures import ENDINGS, survey
from sigmax.data.request import Request
from sigmax.errors import RequestError


def load(request: Request) -> Dataset:
    """The images under the split's folder, read one by one when asked for.

    Classes are the folders' names in alphabetical order, an empty folder being a class without images; within
    a class images are ordered by name. Without a folder named like the split, the class folders directly
    under the path are its only split. Without `size`, all images must have the same size.
    """
    endings = " ".join(f"*{ending}" for ending in ENDINGS)
    expected = f"class folders of images, {request.split}/<class>/ or <class>/, holding {endings}"
    root = request.location(expected)
    base = root / request.split if (root / request.split).is_dir() else root
    classes = _folders(base)
    _check_same_classes(root, base, classes)
    found = [(file, label) for label, name in enumerate(classes) for file in _images(base / name)]
    if not found:
        raise RequestError(
            f"{request.source}: no images for the split {request.split!r} in {base}, which holds the folders "
            f"{', '.join(classes[:10]) or '(none)'}; expected {expected}, or ask for another split"
        )
    return Dataset(
        name=root.resolve().name,
        split=request.split,
        images=survey([file for file, _ in found], request.size),
        labels=np.array([label for _, label in found], np.int64),
        classes=classes,
    )


def _check_same_classes(root: Path, base: Path, classes: tuple[str, ...]) -> None:
    """Refuse a split whose classes are not those of train: a missing one would shift all later labels."""
    if base == root or not (root / "train").is_dir():
        return
    different = set(classes) ^ set(_folders(root / "train"))
    if different:
        raise RequestError(
            f"{base} and {root / 'train'} must have the same classes, but only one of them has "
            f"{', '.join(sorted(different)[:10])}; add the missing folders, empty ones if need be"
        )


def _folders(base: Path) -> tuple[str, ...]:
    if not base.is_dir():
        raise RequestError(f"{base} is not a folder; expected a folder with one folder a class")
    return tuple(sorted(path.name for path in base.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _images(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted((path for path in files if path.suffix.lower() in ENDINGS), key=lambda path: path.name)
