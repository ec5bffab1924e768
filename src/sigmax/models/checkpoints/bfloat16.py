"""Weights kept as 16-bit bfloat16: half the room, and the rounded weights are the model.

Kernels and matrices are rounded; biases, scales and running statistics, a fraction of the room, stay as they are.
A network is rounded first and then kept without loss, so what certifies from the file is what was certified before.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError

Store = Literal["fp32", "bf16"]
STORES = ("fp32", "bf16")


def check_store(store: str) -> None:
    """Raise unless weights can be kept like this."""
    if store not in STORES:
        raise RequestError(f"store must be one of {', '.join(STORES)}; got {store!r}")


def round_weights(network: nn.Module) -> None:
    """Round the network's kernels and matrices, in place, to what bfloat16 can hold."""
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if _is_rounded(tensor):
                tensor.copy_(tensor.bfloat16())


def as_bfloat16(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as they are kept; refused if that would change them."""
    kept = {name: tensor.bfloat16() if _is_rounded(tensor) else tensor for name, tensor in tensors.items()}
    changed = [name for name, tensor in kept.items() if not torch.equal(tensor.to(tensors[name].dtype), tensors[name])]
    if changed:
        raise RequestError(
            f"bfloat16 cannot hold {len(changed)} of the tensors, such as {changed[0]}; round the network first: "
            "sigmax.models.round_weights(network), or save a whole system with store='bf16'"
        )
    return kept


def restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as the network has them."""
    return {name: t.float() if t.dtype is torch.bfloat16 else t for name, t in tensors.items()}


def _is_rounded(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.ndim >= 2
