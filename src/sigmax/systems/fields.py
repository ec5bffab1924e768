"""Fields in a system's folder: the training points that a nearest-neighbour field stands on, one file a field.

8-bit images are kept as such (CIFAR-10: 154 MB), so a folder needs no data set beside it; points that are none are
kept as they are. The fingerprint in `system.toml` is of the points as the field sees them, and is checked.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sigmax.errors import RequestError
from sigmax.radius.distances import blocks
from sigmax.schemes.fields import NearestNeighbourSigma, SigmaField
from sigmax.schemes.scheme import Scheme

_PIXELS, _POINTS = "pixels", "points"  # 8-bit, or as they are


def field_file(place: str) -> str:
    """`expert-0/field` is kept in expert-0-field.safetensors."""
    return f"{place.replace('/', '-')}.safetensors"


def check_fields(scheme: Scheme) -> None:
    """Raise where a field cannot be kept in a file."""
    for place, field in scheme.fields.items():
        if not isinstance(field, NearestNeighbourSigma):
            raise RequestError(
                f"the field {place!r} ({type(field).__name__}) cannot be saved: it is a function of your own. Use "
                "it from Python with sx.certify_run"
            )


def save_fields(scheme: Scheme, folder: Path) -> None:
    """Write every field's points to its file."""
    for place, field in scheme.fields.items():
        assert isinstance(field, NearestNeighbourSigma)
        pixels = _as_pixels(field.points)
        kept = {_POINTS: np.ascontiguousarray(field.points)} if pixels is None else {_PIXELS: pixels}
        save_file(kept, folder / field_file(place))


def load_field(folder: Path, place: str, described: Mapping[str, Any]) -> SigmaField:
    """The field that the head of the folder describes, seen to be the one it was built with."""
    path = folder / field_file(place)
    try:
        kept = load_file(path)
    except (OSError, SafetensorError) as error:
        raise RequestError(f"{path}, with the points of the field, cannot be read: {error}") from error
    points = _from_pixels(kept[_PIXELS]) if _PIXELS in kept else kept.get(_POINTS)
    if points is None:
        raise RequestError(f"{path} holds no points of a field; build the system again")
    try:
        field = NearestNeighbourSigma(points, *(described[name] for name in ("base", "rate", "k", "offset")))
    except KeyError as error:
        raise RequestError(f"the description of the field lacks {error}; the file is damaged") from error
    found = field.describe()
    if {**found, "jitter": None} != {**described, "jitter": None} or not _close(
        found["jitter"], described.get("jitter")
    ):
        raise RequestError(f"{path} is not the field the system was built with; build the system again")
    # A field cannot be changed; that of another machine, a bit larger, is as true.
    object.__setattr__(field, "jitter", max(field.jitter, float(described["jitter"])))
    return field


def _close(found: float, described: object) -> bool:
    """Sums of squares may differ in their last bits between machines."""
    return isinstance(described, float) and math.isclose(found, described, rel_tol=1e-6)


def _as_pixels(points: NDArray[Any]) -> NDArray[np.uint8] | None:
    """The points as 8-bit pixels, where that loses nothing."""
    if points.dtype != np.float32:
        return None
    pixels = np.empty(points.shape, np.uint8)
    for part in blocks(*points.shape):  # the whole would be held four times: 6 GB for 9,469 photographs, once
        some = points[part]
        if some.min() < 0 or some.max() > 1:
            return None
        pixels[part] = np.rint(some * np.float32(255))
        if not np.array_equal(_from_pixels(pixels[part]), some):
            return None
    return pixels


def _from_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    unit = np.divide(pixels, np.float32(255), dtype=np.float32)
    unit.setflags(write=False)  # so that a field takes it as it is
    return unit
