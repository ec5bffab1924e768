"""The weights of networks as one hash, by which their noise is addressed.

Names and code are left out on purpose: two schemes over the same weights are compared on the same noise, also when a
network was wrapped, or its confidence threshold moved. A plain function has no content that could be hashed.
"""

import hashlib
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sigmax.models.adapters.programs import Program
from sigmax.models.denoised import Denoised
from sigmax.models.selective import Selective


def content_of(models: Iterable[object]) -> str:
    """32 hex digits of all weights among these models, in whatever order they are given."""
    found = sorted({content for model in models for content in _contents(model)})
    return hashlib.sha256(" ".join(found).encode()).hexdigest()[:32]


def _contents(model: object) -> Iterator[str]:
    if isinstance(model, Selective):
        yield from _contents(model.model)
    elif isinstance(model, Denoised):
        yield from _contents(model.denoiser)
        yield from _contents(model.classifier)
    elif isinstance(getattr(model, "fingerprint", None), str):
        yield str(model.fingerprint)  # type: ignore[attr-defined]
    elif isinstance(model, Program):
        yield model.content
        yield from _contents(model.network)
    elif isinstance(model, nn.Module):
        yield weights_of(model)


def weights_of(model: nn.Module) -> str:
    """The hash of a module's parameters and buffers, also of those that a state dict leaves out.

    To hash a large network is to copy it to the CPU, which takes as long as thousands of its votes. So on an
    accelerator the hash is kept for as long as a checksum of the same bits, made there, stays what it was.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(tensor.device.type == HERE for tensor in tensors):
        return _hash(tensors)
    now = checksums(tensors)
    before, found = _hashed.get(model, (None, ""))
    if before != now:
        found = _hash(tensors)
        _hashed[model] = now, found
    return found


def _hash(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


_hashed: WeakKeyDictionary[nn.Module, tuple[object, str]] = WeakKeyDictionary()
HERE = "cpu"  # where a checksum takes as long as the hash
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}  # by the bytes of a number
CHUNK = 1 << 22  # numbers that are summed at once


def checksums(tensors: Iterable[Tensor]) -> object:
    """A sum over each tensor's bits, every number times an odd one that tells its place, modulo 2^64.

    So it sees any one number that changed, also where torch counted no change, as it does not of changes to `.data`.
    Of numbers of at most 32 bits it sees any two that were exchanged: they differ by d < 2^32 and their places by
    2k < 2^32, so neither has 32 factors of two, and d * 2k is no multiple of 2^64.
    """
    kinds, sums, odd = [], [], dict[torch.device, Tensor]()
    for tensor in tensors:
        kinds.append((tensor.dtype, tuple(tensor.shape)))
        flat = tensor.detach().contiguous().reshape(-1)
        flat = flat.view(INTEGERS.get(flat.element_size(), torch.int64))
        if tensor.device not in odd:
            odd[tensor.device] = torch.arange(1, 2 * CHUNK, 2, device=tensor.device)
        places = odd[tensor.device]
        parts = enumerate(torch.split(flat, CHUNK))
        ends = [(part * places[: len(part)]).sum() + 2 * CHUNK * i * part.sum() for i, part in parts]
        sums.append(torch.stack(ends).sum())
    return kinds, torch.stack([one.to(sums[0].device) for one in sums]).tolist() if sums else []
