"""What `certify` and `predict` are given: a batch of inputs, or a data set of images."""

import math
from typing import Any

from sigmax.data import as_dataset, is_data_source
from sigmax.errors import RequestError

MOST_BYTES = 4 * 2**30  # of a data set's images as 32-bit floats; a run reads more of them, a group at a time


def batch_of(x: object, classes: int) -> Any:
    """A batch as it is; of a data set, or what `sigmax.data.as_dataset` takes for one, all images in their order."""
    if not is_data_source(x):
        return x
    dataset = as_dataset(x, classes=classes)
    if 4 * len(dataset) * math.prod(dataset.shape) > MOST_BYTES:
        raise RequestError(
            f"{dataset!r} is too large to hold at once; use sigmax.certify_run, which reads images as it needs them, "
            "or give a part of it: dataset.take(range(1000))"
        )
    return dataset.pixels(range(len(dataset)))
