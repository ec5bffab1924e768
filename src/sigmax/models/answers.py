"""What a model returned, as one tensor: models of different libraries wrap their logits differently."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_tensor(output: Any, device: torch.device) -> Any:
    """The logits or class ids in a model's output as a tensor.

    Taken as they are: tensors, numpy arrays and what turns into one, lists of numbers or of rows. Of a mapping or an
    object the entry `logits` counts; of a tuple, or a list of arrays, the first entry with an axis for the batch, so
    that a loss in front is passed over. Anything else is returned as it is, to be refused by name.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, list | tuple):
        output = _of_several(output)
    if not isinstance(output, Tensor) and hasattr(output, "__array__"):
        output = np.asarray(output)
    return torch.from_numpy(np.ascontiguousarray(output)).to(device) if isinstance(output, np.ndarray) else output


def _of_several(output: Sequence[Any]) -> Any:
    """The logits among several arrays, or rows of numbers as one array."""
    axes = [one.ndim if isinstance(one, Tensor | np.ndarray) else None for one in output]
    if isinstance(output, tuple) or any(axis is not None and axis > 1 for axis in axes):
        return next((one for one, axis in zip(output, axes, strict=True) if axis), output)
    if output and all(axis is not None for axis in axes):  # a row, or a class id, for each input
        output = [torch.as_tensor(one).tolist() for one in output]
    try:
        rows = np.asarray(output)
    except ValueError:  # rows of different lengths
        return output
    return rows if rows.dtype.kind in "iuf" and rows.size else output
