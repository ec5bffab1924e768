"""A network's tensors by name: putting them in, and saying what does not fit."""

from collections.abc import Mapping
from hashlib import sha256

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError

Tensors = Mapping[str, Tensor]

_SHORT_FLOATS = (torch.bfloat16, torch.float16)
_SHOWN = 3  # names listed of each kind of difference


def fill(network: nn.Module, tensors: Tensors, *, classes: int, source: str) -> None:
    """Give the network exactly these finite tensors, rounded if it has 16 bits; `source` begins an error."""
    expected = network.state_dict()
    _refuse_other_classes(expected, tensors, classes, source)
    found = differences(expected, tensors)
    if found:
        raise RequestError(f"{source}: checkpoint of another architecture: {'; '.join(found)}")
    refuse_unusual(tensors, source=source)
    _refuse_values(expected, tensors, source)
    fitting = {
        name: tensor.to(kind) if (kind := expected[name].dtype) in _SHORT_FLOATS else tensor
        for name, tensor in tensors.items()
    }
    network.load_state_dict(fitting, assign=True)


def differences(expected: Tensors, tensors: Tensors) -> list[str]:
    """What keeps `tensors` from being the expected ones, in words; empty when they fit."""
    missing = [name for name in expected if name not in tensors]
    surplus = [name for name in tensors if name not in expected]
    reshaped = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    kinds = (("the file lacks", missing), ("the network has no", surplus), ("the file has", reshaped))
    return [f"{kind} {_first(items)}" for kind, items in kinds if items]


def refuse_unusual(tensors: Tensors, *, source: str) -> None:
    """Refuse what is not a plain array of real numbers: sparse, quantised or complex tensors, or shapes alone."""
    unusual = [f"{name} ({_kind(tensor)})" for name, tensor in tensors.items() if not _is_plain(tensor)]
    if unusual:
        raise RequestError(
            f"{source}: expected dense tensors of real numbers, got {_first(unusual)}; convert them where they "
            "come from (a sparse tensor: tensor.to_dense()) and save them again"
        )


def _is_plain(tensor: Tensor) -> bool:
    # Strided comes first: some kinds of tensor cannot even be asked the other questions.
    dense = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
    return dense and not tensor.is_meta and not tensor.is_complex()


def _kind(tensor: Tensor) -> str:
    return "a shape without values" if tensor.is_meta else f"{tensor.layout}, {tensor.dtype}"


def _refuse_values(expected: Tensors, tensors: Tensors, source: str) -> None:
    """Say which tensors of the right shapes still cannot be weights."""
    whole = [
        f"{name} ({tensors[name].dtype})"
        for name, tensor in expected.items()
        if tensor.is_floating_point() and not tensors[name].is_floating_point()
    ]
    if whole:
        raise RequestError(
            f"{source}: expected floating-point weights, got {_first(whole)}; scale quantised weights back to "
            "floats, or take another file"
        )
    # Widened first: the eight-bit floats cannot be asked whether they are finite.
    broken = [name for name, tensor in tensors.items() if not tensor.double().isfinite().all()]
    if broken:
        raise RequestError(
            f"{source}: expected finite weights, got NaN or infinity in {_first(broken)}; the training diverged "
            "or the file is damaged: take another one"
        )


def digest(identity: str, tensors: Tensors) -> str:
    """32 hex digits over the identity and over every tensor's name, dtype, shape and bytes, in order of name."""
    total = sha256(f"sigmax model 1 {identity}".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:32]


def _refuse_other_classes(expected: Tensors, tensors: Tensors, classes: int, source: str) -> None:
    """Say so when the last layer's number of classes is all that differs."""
    if set(expected) != set(tensors):
        return
    differing = [name for name in expected if tensors[name].shape != expected[name].shape]
    found = {tensors[name].shape[:1] for name in differing}
    only_the_classes = all(
        expected[name].shape[:1] == (classes,) and expected[name].shape[1:] == tensors[name].shape[1:]
        for name in differing
    )
    if len(found) == 1 and only_the_classes:
        (theirs,) = found.pop()
        raise RequestError(
            f"{source}: the last layer ({', '.join(differing)}) has {theirs} classes and {classes} were asked "
            f"for; ask for classes={theirs}, or take another file"
        )


def _first(items: list[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
