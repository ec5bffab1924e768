"""Reading a file of weights as data only: whatever it is, none of it runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from sigmax.errors import RequestError

_CONTAINERS = ("state_dict", "model_state_dict", "model", "net")


def state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors by name that the file holds, at its top or under one of the usual keys.

    Takes what `torch.save` writes (.pt, .pth, .th) and safetensors. A pickle that asks for anything but
    tensors and plain values is refused, unread.
    """
    if not path.is_file():
        raise RequestError(f"there is no file {path}")
    held = _read(path)
    while isinstance(held, Mapping) and not _is_state_dict(held):
        inner = [held[key] for key in _CONTAINERS if key in held]
        if not inner:
            raise RequestError(
                f"{path} holds no state dict: its keys are {', '.join(map(str, list(held)[:5])) or 'none'}, and "
                f"tensors are looked for at the top or under {', '.join(_CONTAINERS)}"
            )
        held = inner[0]
    if not isinstance(held, Mapping):
        raise RequestError(f"{path} holds a {type(held).__name__}, not a state dict of tensors by name")
    return dict(held)


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    # Arbitrary bytes make the readers fail in arbitrary ways; all of them mean the same to the caller.
    except Exception as error:
        wanted = re.search(r"GLOBAL (\S+\.\S+)", str(error))
        if wanted:
            raise RequestError(
                f"{path} was refused: loading it would call {wanted[1]}, and a file may not bring code. If you "
                "trust where it comes from, open it there and save its state dict alone: "
                "torch.save(model.state_dict(), ...)"
            ) from error
        raise RequestError(
            f"{path} is not a file of weights, or it is cut short ({type(error).__name__}); fetch it again"
        ) from error


def _is_state_dict(held: Mapping[Any, Any]) -> bool:
    return bool(held) and all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in held.items())
