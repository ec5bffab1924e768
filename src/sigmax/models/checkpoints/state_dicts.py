"""Reading a file of weights as data only: whatever it is, none of it runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.models.checkpoints.tensors import refuse_unusual

_DEEPEST = 4  # containers in containers; a file may hold itself, and then there is no end to them
_CONTAINERS = ("state_dict", "model_state_dict", "model", "net")


def state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors by name in a file, at its top or under a usual key; a pickle of anything else is refused, unread."""
    held = _read(path)
    for _ in range(_DEEPEST):
        if not isinstance(held, Mapping):
            raise RequestError(f"{path} holds a {type(held).__name__}, not a state dict of tensors by name")
        if held and all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in held.items()):
            refuse_unusual(held, source=str(path))
            return dict(held)
        held = _inner(held, path)
    raise RequestError(
        f"{path} holds no state dict within {_DEEPEST} levels of {', '.join(_CONTAINERS)}; save it alone: "
        "torch.save(model.state_dict(), ...)"
    )


def _inner(held: Mapping[Any, Any], path: Path) -> Any:
    """What lies under the first of the usual keys."""
    for key in _CONTAINERS:
        if key in held:
            return held[key]
    raise RequestError(
        f"{path} holds no state dict: its keys are {', '.join(map(str, list(held)[:5])) or 'none'}, and "
        f"tensors are looked for at the top or under {', '.join(_CONTAINERS)}"
    )


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RequestError(f"there is no file {path}") from error
    # Arbitrary bytes make the readers fail in arbitrary ways; all of them mean the same to the caller.
    except Exception as error:
        wanted = re.search(r"GLOBAL (\S+\.\S+)", str(error))
        if wanted:
            raise RequestError(
                f"{path} is a pickle that asks for {wanted[1]}, not for weights alone; torch.save(model, ...) writes "
                "such files. It was refused: loading it would run code. Where it was made, save the weights alone, "
                "torch.save(model.state_dict(), ...), or export the network: torch.export.save, torch.onnx.export"
            ) from error
        raise RequestError(
            f"{path} is not a file of weights, or it is cut short ({type(error).__name__}); fetch it again"
        ) from error
