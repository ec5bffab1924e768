"""Where and how a network votes: device, precision and batch size, as asked for or chosen."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from sigmax.errors import RequestError
from sigmax.noise.addressed import BLOCK

Model = Callable[..., Any]  # a batch to logits or class ids
Precision = torch.dtype | str  # a dtype of torch, or one of DTYPES by name
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LARGEST_LEARNED = 31 << 20  # bytes; glibc ignores blocks of 32 MiB and more
CPU_BATCH, GPU_BATCH = 1024, 4096  # inputs a forward pass, at most, unless given
FEW = 8  # photographs in a CPU's batch, for each thread
CACHED_NUMBERS = 1 << 17  # input numbers of a batch that suits a CPU's cache, as measured on small networks


def cpu_batch(numbers: int) -> int:
    """Inputs a forward pass so that a layer's results stay in the cache: 1,024 of 8x8 pixels, 128 of 3x32x32.

    Of photographs not one does. As few a thread as kernels are made for: EfficientNet-Lite0 at 224x224 takes half as
    long as in batches of 128.
    """
    if numbers > CACHED_NUMBERS:
        return min(BLOCK, FEW * torch.get_num_threads())
    fitting = CACHED_NUMBERS // numbers
    return min(CPU_BATCH, max(BLOCK, 1 << fitting.bit_length() - 1))


@cache  # a process learns it once; another such block would have the end of its heap handed back with it
def keep_freed_memory() -> None:
    """Make the C library keep what a batch frees, where it would hand it back and fault it in again.

    glibc learns from a large block that is freed; without this a small network spends most of its time on page
    faults (measured: 120,000 votes a second instead of 340,000). Elsewhere it does nothing.
    """
    torch.empty(LARGEST_LEARNED, dtype=torch.uint8, device="cpu")


def device_of(model: Model, device: str | torch.device | None) -> torch.device:
    """The device asked for, or else the one the model lies on."""
    if device is None:
        tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
        return tensors[0].device if tensors else torch.device("cpu")
    return check_device(device)


def check_device(device: str | torch.device) -> torch.device:
    """The device, if it can be used here."""
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RequestError(f"device {str(device)!r} cannot be used here: {error}. Try device='cpu'") from error
    return chosen


def dtype_of(dtype: Precision | None) -> torch.dtype:
    """The precision asked for; 32 bits unless another is."""
    chosen = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype or torch.float32
    if chosen not in DTYPES.values():
        raise RequestError(
            f"dtype must be one of {', '.join(DTYPES)} or {', '.join(map(str, DTYPES.values()))}; got {dtype!r}"
        )
    assert isinstance(chosen, torch.dtype)
    return chosen


def batch_size(batch: int | None, device: torch.device) -> int:
    """Inputs a forward pass: as asked for, or what suits the device."""
    if batch is None:
        return CPU_BATCH if device.type == "cpu" else GPU_BATCH
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise RequestError(f"batch must be a whole number of inputs, at least 1; got {batch!r}")
    return batch
