"""The weights of networks as one hash, by which their noise is addressed.

Names and code are left out on purpose: two schemes over the same weights are compared on the same noise, also when a
network was wrapped, or its confidence threshold moved. A plain function has no content that could be hashed.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
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

    To hash a large network takes as long as thousands of its votes on a GPU. So the hash is kept for as long as a
    checksum of the same bits, made where they lie, stays what it was.
    """
    tensors = [*model.parameters(), *model.buffers()]
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
HOST = "cpu"  # where numpy sums several times as fast as torch
WORD = 8  # bytes of a word
CHUNK = 1 << 17  # words that are summed at once: they and their places stay in a processor's cache


def checksums(tensors: Iterable[Tensor]) -> object:
    """A sum over each tensor's bits as 64-bit words, each times an odd number that tells its place, modulo 2^64.

    So it sees any one number that changed and any two that were exchanged, also where torch counted no change, as it
    does not of changes to `.data`.
    """
    kinds, sums = [], []
    for tensor in tensors:
        kinds.append((tensor.dtype, tuple(tensor.shape)))
        words = _words(tensor.detach())
        sums.append(_host_sum(words.numpy()) if words.device.type == HOST else _sum(words))
    there = [one for one in sums if isinstance(one, Tensor)]  # to be fetched at once: a GPU is waited for
    fetched = iter(torch.stack([one.to(there[0].device) for one in there]).tolist() if there else [])
    return kinds, [next(fetched) if isinstance(one, Tensor) else one for one in sums]


def _words(tensor: Tensor) -> Tensor:
    """Its bytes as 64-bit integers, filled up with zeros."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    if len(flat) % WORD or flat.data_ptr() % WORD or flat.storage_offset() % WORD:
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % WORD)])
    return flat.view(torch.int64)


def _host_sum(words: npt.NDArray[np.int64]) -> int:
    whole = len(words) // CHUNK * CHUNK
    places = _odd(HOST, CHUNK).numpy()
    parts, rest = words[:whole].reshape(-1, CHUNK) @ places, words[whole:] @ places[: len(words) - whole]
    total: int = sum((2 * i + 1) * part for i, part in enumerate([*parts.tolist(), int(rest)]))
    return (total + 2**63) % 2**64 - 2**63  # as 64 bits with a sign, which torch counts in


def _sum(words: Tensor) -> Tensor:
    """The same on an accelerator, where it stays until it is fetched."""
    places = _odd(str(words.device), CHUNK)
    whole = len(words) // CHUNK * CHUNK
    parts = (words[:whole].view(-1, CHUNK) * places).sum(1)
    rest = (words[whole:] * places[: len(words) - whole]).sum()
    return (torch.cat([parts, rest[None]]) * _odd(str(words.device), len(parts) + 1)).sum()


@lru_cache(maxsize=64)
def _odd(device: str, count: int) -> Tensor:
    return torch.arange(1, 2 * count, 2, device=device)
