"""The weights of networks as one hash, by which their noise is addressed.

Names and code are left out on purpose: two schemes over the same weights are compared on the same noise, also when a
network was wrapped, or its confidence threshold moved. A plain function has no content that could be hashed.
"""

import hashlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn

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
        yield _weights(model)


def _weights(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in (*model.parameters(), *model.buffers()):  # also buffers that a state dict leaves out
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
