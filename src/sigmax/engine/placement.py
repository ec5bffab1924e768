"""A model's tensors on the device and in the memory layout that it votes with, for as long as it votes.

The caller's model is to be left where it was. So a copy is made of each tensor that lies elsewhere or otherwise, and
while votes are cast the tensor stands for its copy: an exchange of pointers, not of numbers. What lies right already
is used as it is. Voters of the same tensors share the copies, which live as long as one of these voters.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError

_lock = threading.Lock()  # a scheme may answer in several threads


class Copied:
    """A tensor of a model, and a copy of it on another device or in another layout."""

    def __init__(self, tensor: Tensor, device: torch.device, layout: torch.memory_format) -> None:
        self.tensor, self.home = tensor, tensor.data
        self.users = 0  # votings under way
        self._seen = self._stamp()
        with torch.inference_mode(tensor.is_inference()):  # the two kinds of tensor cannot stand for each other
            self.copy = tensor.data.to(device, memory_format=_format(tensor, layout), copy=True)
        if not torch._has_compatible_shallow_copy_type(tensor.data, self.copy):
            raise RequestError(
                f"a {type(tensor).__name__} of the model cannot be moved to {device} for the votes alone; move the "
                "model there yourself before it is smoothed"
            )

    def refresh(self, *, always: bool) -> None:
        """Bring the copy up to date: the model may have been trained in between.

        `always`: also where torch did not count a change, as it does not of changes to `.data`.
        """
        if self.users:
            return
        now = self._stamp()
        if always or now != self._seen:
            self.home, self._seen = self.tensor.data, now
            with torch.inference_mode(self.copy.is_inference()):
                self.copy.copy_(self.home)

    def _stamp(self) -> object:
        tensor = self.tensor
        version = None if tensor.is_inference() else tensor._version
        return version, tensor.data_ptr() if tensor.layout is torch.strided else None

    def enter(self) -> None:
        """From now on the tensor is its copy."""
        if not self.users:
            self.refresh(always=False)
            self.tensor.data = self.copy
        self.users += 1

    def leave(self) -> None:
        """The tensor is itself again, once nobody votes any more."""
        self.users -= 1
        if not self.users:
            self.tensor.data = self.home


_known: WeakValueDictionary[tuple[object, ...], Copied] = WeakValueDictionary()


def copies(model: nn.Module, device: torch.device, layout: torch.memory_format) -> list[Copied]:
    """Up-to-date copies of the tensors that lie elsewhere than on `device`, or otherwise than in `layout`."""
    with _lock:
        found, device = [], torch.empty(0, device=device).device  # "cuda" is one of them
        for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
            key = id(tensor), device, layout
            known = _known.get(key)
            if (known is None or not known.users) and _lies_right(tensor, device, layout):
                continue
            if known is None or not _may_stand_for(known, tensor):
                known = _known[key] = Copied(tensor, device, layout)
            else:
                known.refresh(always=True)
            found.append(known)
        return found


@contextmanager
def in_place(found: Iterable[Sequence[Copied]], keep: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Within it the tensors are their copies.

    `keep`: modules that vote in the layout they have; what they share with others is only moved between devices.
    """
    kept = {id(t) for module in keep for t in (*module.parameters(), *module.buffers())}
    used = [one for some in found for one in some if id(one.tensor) not in kept or one.copy.device != one.home.device]
    entered: list[Copied] = []
    try:
        with _lock:
            for one in used:
                one.enter()
                entered.append(one)
        yield
    finally:
        with _lock:
            for one in reversed(entered):
                one.leave()


def _may_stand_for(known: Copied, tensor: Tensor) -> bool:
    """Whether the copy is of this very tensor, which still has the shape and kind it had."""
    copy = known.copy
    return known.tensor is tensor and (bool(known.users) or (copy.shape, copy.dtype) == (tensor.shape, tensor.dtype))


def _lies_right(tensor: Tensor, device: torch.device, layout: torch.memory_format) -> bool:
    if nn.parameter.is_lazy(tensor) or tensor.is_meta:
        return True  # there is nothing to move yet
    laid_out = layout is torch.contiguous_format or not _is_laid_out(tensor) or _has(tensor, layout)
    return tensor.device == device and laid_out


def _format(tensor: Tensor, layout: torch.memory_format) -> torch.memory_format:
    return layout if layout is not torch.contiguous_format and _is_laid_out(tensor) else torch.preserve_format


def _is_laid_out(tensor: Tensor) -> bool:
    """Kernels of convolutions, as torch's own `module.to(memory_format=...)` takes them to be."""
    return tensor.layout is torch.strided and tensor.ndim == 4


def _has(tensor: Tensor, layout: torch.memory_format) -> bool:
    """Whether its strides are those of the layout. A 1x1 kernel is contiguous in either layout, and GPUs choose their
    algorithms by the strides themselves.
    """
    return tensor.stride() == torch.empty(tensor.shape, memory_format=layout, device="meta").stride()
