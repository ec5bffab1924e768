"""A network computed in 64 bits, where it lets itself be: its scores then carry almost no rounding."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Model = Callable[..., Any]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether any result within it has fewer than 64 bits."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation as it is, and look at what it returns."""
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex()):
                self.narrow |= one.dtype != torch.float64
        return result


def in_double(model: Model, device: torch.device) -> Model | None:
    """A copy of a module in 64 bits, or the function itself; None where a module cannot be copied so."""
    if not isinstance(model, nn.Module):
        return model
    try:
        return copy.deepcopy(model).double().to(device).eval()
    except Exception:  # whatever it is: the model is the user's code, and 32 bits remain
        return None


def exact_scores(model: Model, *arguments: Tensor | float) -> Tensor | None:
    """The scores in 64 bits; None where the model refuses them, or a step of it has fewer.

    Every operation of torch is watched, since a network may round on its way and return 64 bits. What leaves torch
    cannot be watched, so a model that returns anything but a tensor of torch is not taken.
    """
    try:
        with torch.inference_mode(), Watch() as watch:
            output = model(*arguments)
    except Exception:  # the same inputs in 32 bits say what is wrong, if anything is
        return None
    exact = isinstance(output, Tensor) and output.dtype == torch.float64 and not watch.narrow
    return output if exact else None
