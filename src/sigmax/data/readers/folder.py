"""Image folders: one folder a class, as ImageNet is usually laid out; or images without labels.

PATH/<split>/<class>/*.png      or, with a single split,      PATH/<class>/*.png
PATH/<split>/*.png              or                            PATH/*.png              no labels
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from sigmax.data.dataset import Dataset
from sigmax.data.pictures import ENDINGS, ImageFiles, survey, survey_to_fit
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError

_OTHER_PICTURES = (".tif", ".tiff", ".gif", ".heic", ".heif", ".avif", ".jfif", ".jp2", ".jxl", ".ppm", ".pgm", ".dng")


@register("folder", path=True, sizes=True)
def read(request: DataRequest) -> Dataset:
    """The images under the split's folder, read one by one when asked for.

    Classes are the folders' names, an empty folder being a class without images; without a folder named like the
    split, the class folders directly under the path are its only split. Images that lie in no class folder have no
    labels. Folders and images are ordered by name, in the order of the letters' code points, the same on every
    machine, so that 10.png precedes 2.png. Without `size` or `fit`, all images must have the same size.
    """
    endings = " ".join(f"*{ending}" for ending in ENDINGS)
    expected = (
        f"class folders of images, {request.split}/<class>/ or <class>/, or images without labels in one folder, "
        f"holding {endings}"
    )
    root = request.location(expected)
    base = root / request.split if (root / request.split).is_dir() else root
    classes = _folders(base)
    found = [(file, label) for label, name in enumerate(classes) for file in _images(base / name)]
    loose = _images(base)
    _warn_of_other_pictures(base, [base, *(base / name for name in classes)])
    if loose and found:
        raise RequestError(
            f"{base} holds images of its own ({loose[0].name}) and folders of images ({found[0][0].parent.name}): "
            "expected all of them in class folders, or none; move the others away"
        )
    if loose:
        return Dataset(root.resolve().name, request.split, _surveyed(loose, request), None, ())
    _check_same_classes(root, base, classes)
    if not found:
        raise RequestError(
            f"{request.source}: no images for the split {request.split!r} in {base}, which holds the folders "
            f"{', '.join(classes[:10]) or '(none)'}; expected {expected}, or ask for another split"
        )
    files, labels = zip(*found, strict=True)
    images = _surveyed(files, request)
    return Dataset(root.resolve().name, request.split, images, np.array(labels, np.int64), classes)


def _surveyed(files: Sequence[Path], request: DataRequest) -> ImageFiles:
    if request.fit is None or request.size is not None:
        return survey(files, request.size)
    return survey_to_fit(files, request.fit)


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


def _warn_of_other_pictures(base: Path, folders: Iterable[Path]) -> None:
    """Say once how many pictures are passed over for their format; other files are nobody's images."""
    suffixes = Counter(
        path.suffix.lower() for folder in folders for path in folder.iterdir() if not path.name.startswith(".")
    )
    skipped = {suffix: suffixes[suffix] for suffix in _OTHER_PICTURES if suffixes[suffix]}
    if skipped:
        listed = ", ".join(f"{count} {suffix}" for suffix, count in skipped.items())
        warnings.warn(
            f"{base}: pictures that are not read were skipped: {listed}; only {' '.join(ENDINGS)} are, so convert them",
            stacklevel=2,
        )


def _folders(base: Path) -> tuple[str, ...]:
    if not base.is_dir():
        raise RequestError(f"{base} is not a folder; expected a folder with one folder a class")
    return tuple(sorted(path.name for path in base.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _images(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted((path for path in files if path.suffix.lower() in ENDINGS), key=lambda path: path.name)
