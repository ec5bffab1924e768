"""The fastest mode to run a network in on this machine: tried once with real batches, measured and remembered."""

import contextlib
import hashlib
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from sigmax.engine.branches import Branches
from sigmax.errors import RequestError
from sigmax.files import replacing
from sigmax.models.denoised import Denoised

Mode = Literal["off", "default", "graphs", "tuned", "denoiser"]
Forward = Callable[..., Tensor]
TORCH_MODES: dict[str, str] = {  # what torch.compile calls them
    "default": "default",
    "graphs": "reduce-overhead",
    "tuned": "max-autotune-no-cudagraphs",
    "denoiser": "default",  # of the denoiser alone: the classifier may run faster as it is
}
AUTO = "auto"
ENOUGH = 0.3  # seconds a measurement lasts at least
WORTH = 1.02  # a larger batch or a compiled network must gain this much


@dataclass(frozen=True)
class Measurement:
    """A mode and a batch size, and the votes a second that a network cast in them."""

    mode: Mode
    batch: int
    votes_per_s: float = 0.0


def mode_of(compile: bool | str) -> str:  # noqa: A002 (the name users know from torch)
    """The mode that a caller named: True is "default", False is "off"."""
    if isinstance(compile, bool):
        return "default" if compile else "off"
    allowed = (*get_args(Mode), AUTO)
    if compile not in allowed:
        raise RequestError(f"compile must be True, False or one of {', '.join(allowed)}; got {compile!r}")
    return compile


def compiled(model: Forward, mode: str) -> Forward:
    """The model as the mode runs it."""
    if mode == "off":
        return model
    if mode == "denoiser":
        if not isinstance(model, Denoised | Branches):
            raise RequestError("compile='denoiser' is for a Denoised model; this one has no denoiser")
        return model.with_denoiser(torch.compile(model.denoiser, dynamic=False))
    compiled_model: Forward = torch.compile(model, mode=TORCH_MODES[mode], dynamic=False)
    return compiled_model


def modes_for(model: Forward, device: torch.device) -> list[str]:
    """What is worth trying: on a CPU little is."""
    if device.type != "cuda":
        return ["default"]
    return [mode for mode in TORCH_MODES if mode != "denoiser" or isinstance(model, Denoised)]


def fastest(
    call: Callable[[Forward, Tensor], Tensor], model: Forward, one: Tensor, *, batches: Sequence[int]
) -> tuple[Measurement, list[Measurement]]:
    """The best mode and batch size for inputs like `one` (on its device), and all that were measured.

    `call(forward, batch)` runs a batch as votes are cast. `batches`: sizes to try, rising; of these the smallest
    that gives nearly all there is to gain is taken. Every mode is tried at the largest, which compiled networks can
    fill, or where that does not fit at the one taken. A mode that fails is skipped.
    """
    tried: list[Measurement] = []
    for size in batches:
        tried.append(Measurement("off", size, _speed(call, model, one, size)))
        if len(tried) > 1 and tried[-1].votes_per_s < WORTH * tried[-2].votes_per_s:
            break
    best = tried[0]
    for other in tried[1:]:
        best = other if other.votes_per_s > WORTH * best.votes_per_s else best
    for mode in modes_for(model, one.device):
        size = max(batches)
        speed = _speed(call, compiled(model, mode), one, size)
        if not speed and size > best.batch:
            size = best.batch
            speed = _speed(call, compiled(model, mode), one, size)
        tried.append(Measurement(mode, size, speed))  # type: ignore[arg-type]  # a key of the modes is one
    fastest_mode = max(tried, key=lambda measured: measured.votes_per_s)
    return (fastest_mode if fastest_mode.votes_per_s > WORTH * best.votes_per_s else best), tried


def _speed(call: Callable[[Forward, Tensor], Tensor], forward: Forward, one: Tensor, size: int) -> float:
    """Votes a second; 0 where the mode does not work here (no compiler, no memory)."""
    batch = one.expand(size, *one.shape[1:]).clone()
    try:
        # Compilers print a lot, and none of it is about the user's network.
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                call(forward, batch)
            return _timed(lambda: call(forward, batch), one.device, size)
    except Exception:  # whatever a compiler raises: the network as it is will do
        if one.device.type == "cuda":
            torch.cuda.empty_cache()
        return 0.0


def _timed(work: Callable[[], object], device: torch.device, size: int) -> float:
    runs, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < ENOUGH or runs < 2:
        work()
        runs += 1
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return runs * size / passed


def remembered(key: str) -> Measurement | None:
    """What was measured on this machine before, if it was."""
    known = _read().get(key)
    kept = isinstance(known, dict) and known.keys() == {one.name for one in fields(Measurement)}
    return Measurement(**known) if kept else None  # type: ignore[arg-type]  # a dict, as was checked


def remember(key: str, best: Measurement) -> None:
    """Keep a measurement for the next start; where it cannot be written, the next start measures again."""
    file = _file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as draft:
            draft.write_text(json.dumps({**_read(), key: asdict(best)}, indent=1))


def key_of(model: Forward, shape: Sequence[int], device: torch.device, dtype: torch.dtype, batch: int | None) -> str:
    """What a measurement is of: the network's kind and sizes, not its weights; the device, precision and torch."""
    tensors = model.state_dict() if isinstance(model, nn.Module) else {}
    sizes = [(name, list(tensor.shape)) for name, tensor in tensors.items()]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu {torch.get_num_threads()}"
    measured = [type(model).__qualname__, sizes, list(shape), name, str(dtype), batch, torch.__version__]
    return hashlib.sha256(json.dumps(measured).encode()).hexdigest()[:32]


def _file() -> Path:
    home = os.environ.get("SIGMAX_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "sigmax"
    return Path(home).expanduser() / "compilation.json"


def _read() -> dict[str, object]:
    try:
        known = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
