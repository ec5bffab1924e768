"""The handwritten digits that scikit-learn bundles: 1,797 images of 8x8 pixels, nothing to download."""

import numpy as np

from sigmax.data.dataset import Dataset
from sigmax.data.registry import DataRequest, register
from sigmax.errors import needs

_HOLD_OUT = 5  # one image in five is for testing


@register("digits", path=False, splits=("train", "test"))
def read(request: DataRequest) -> Dataset:
    """1,437 images to train on or 360 to test on, (1, 8, 8); grey levels 0..16 become 0..1.

    With the images ordered by class every fifth is a test image, so both parts hold every class in proportion. Each
    part keeps the bundled order, in which the classes are mixed.
    """
    bundle = needs("sklearn.datasets", extra="digits", why="for the source digits").load_digits()
    held_out = np.zeros(len(bundle.target), bool)
    held_out[np.argsort(bundle.target, kind="stable")[::_HOLD_OUT]] = True
    part = held_out if request.split == "test" else ~held_out
    images = (bundle.images[part, None] / 16).astype(np.float32)
    return Dataset(request.kind, request.split, images, bundle.target[part], tuple("0123456789"))
