"""A network computed in 64 bits, where it lets itself be: its scores then carry almost no rounding."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

Model = Callable[..., Any]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether any result within it has fewer than 64 bits, and which results were computed from the inputs."""

    def __init__(self, inputs: Iterable[object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = False
        self.followed = WeakTensorKeyDictionary({one: True for one in inputs if isinstance(one, Tensor)})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation as it is, and look at what it was given and what it returns."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        follows = any(isinstance(one, Tensor) and one in self.followed for one in tree_leaves((args, kwargs)))
        for one in tree_leaves(result):
            if isinstance(one, Tensor):
                self.narrow |= (one.is_floating_point() or one.is_complex()) and one.dtype != torch.float64
                if follows:
                    self.followed[one] = True
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
    cannot be watched, so scores that torch did not compute from the inputs are not taken.
    """
    try:
        with torch.inference_mode(), Watch(arguments) as watch:
            output = model(*arguments)
    except Exception:  # the same inputs in 32 bits say what is wrong, if anything is
        return None
    exact = isinstance(output, Tensor) and output.dtype == torch.float64 and not watch.narrow
    return output if exact and output in watch.followed else None
