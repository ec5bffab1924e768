"""What a network computes, as a few numbers: its outputs on fixed probe inputs.

A hash of the weights cannot see the code that uses them. These numbers can, and are compared with a tolerance: any
grid that they were rounded to before hashing would have edges, where the last bit decides.

# four probes: two of white noise around mid-grey, two of smooth waves; the same for a shape on every machine. A
# function that nothing else identifies gets 32: its class ids on four would say little

They are taken in 32-bit floats and full precision, whatever the network votes in: so the same network agrees on a CPU,
on a GPU, in bfloat16 and compiled, and a run's plan names that arithmetic by itself.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sigmax.engine.outputs import MASKED, class_ids
from sigmax.engine.precision import full_precision
from sigmax.engine.voter import Voter, voting
from sigmax.models.adapters.programs import Program
from sigmax.models.answers import as_tensor
from sigmax.models.denoised import Denoised
from sigmax.models.selective import Selective
from sigmax.request import WIDEST

PROBES = 4
MANY = 32  # probes of a model that is known by its behaviour alone
NUMBERS = 8  # kept of each probe: sums of its logits with fixed signs, so that every class counts
# Of the largest number. On the zoo's networks 32-bit rounding moves it by 2e-6 (fp32 against fp64), bfloat16 by 4e-3.
WITHIN = 1e-3
WITHIN_NARROW = WIDEST  # of a network whose weights are 16 bits wide and so cannot run in 32


def probe_inputs(shape: Sequence[int], count: int = PROBES) -> Tensor:
    """The probes for inputs of this shape, (count, *shape) float32 on the CPU, in [0, 1]."""
    numbers = math.prod(shape)
    bits = np.random.SFC64(numbers)  # its raw output never changes
    white = (bits.random_raw(count * numbers) >> np.uint64(40)) / 2.0**24
    probes = white.reshape(count, *shape)
    phases = bits.random_raw(count * len(shape)) / 2.0**64
    for i in range(count // 2, count):
        axes = [
            np.cos(2 * np.pi * (i * np.linspace(0, 1, size) + phase)).reshape(-1, *[1] * (len(shape) - axis - 1))
            for axis, (size, phase) in enumerate(zip(shape, phases[i * len(shape) :], strict=False))
        ]
        probes[i] = (0.9 * (1 + sum(axes) / len(shape)) / 2) + 0.1 * probes[i]
    return torch.from_numpy(probes.astype(np.float32))


def known_by_behaviour_alone(model: object) -> bool:
    """Whether nothing else identifies the model: a function without weights and without a declared `fingerprint`."""
    if isinstance(model, Selective):
        return known_by_behaviour_alone(model.model)
    if isinstance(model, Denoised):
        return known_by_behaviour_alone(model.denoiser) or known_by_behaviour_alone(model.classifier)
    if isinstance(model, Program):
        return known_by_behaviour_alone(model.network)
    return not isinstance(model, nn.Module) and not isinstance(getattr(model, "fingerprint", None), str)


def behaviour(voter: Voter, shape: Sequence[int], sigma: float) -> dict[str, Any]:
    """What `request` compares: `outputs`, the numbers, and `within`, how far they may lie apart and be the same.

    Of logits: distances from the leading one. Class ids must agree in every probe.
    """
    wide = _is_wide(voter.model)
    count = MANY if known_by_behaviour_alone(voter.model) else PROBES
    batch = probe_inputs(shape, count).to(voter.device)
    voter.copies(fresh=True)
    voter.fit_to(math.prod(shape))  # as it votes on such inputs, also before it has met any
    with voting([voter]), torch.inference_mode(), full_precision(), _precision(voter, wide):
        answer = voter.model(batch, sigma) if voter.takes_sigma else voter.model(batch)
    output = as_tensor(answer, voter.device)
    ids, _ = class_ids(output, count, voter.classes)
    if output.ndim == 1:
        return {"outputs": ids.tolist(), "within": 0.0}
    return {"outputs": _numbers(output.double().cpu()), "within": WITHIN if wide else WITHIN_NARROW}


def _numbers(logits: Tensor) -> list[float]:
    behind = torch.nan_to_num(logits - logits.amax(1, keepdim=True), nan=MASKED).clamp(min=MASKED).numpy()
    classes = logits.shape[1]
    signs = np.random.SFC64(classes).random_raw(classes * NUMBERS).reshape(classes, NUMBERS) >> np.uint64(63)
    sums = behind @ (2.0 * signs - 1.0) / math.sqrt(classes)
    return [float(f"{value:.6g}") for value in sums.ravel()]


def _is_wide(model: object) -> bool:
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return all(w.dtype in (torch.float32, torch.float64) for w in weights if w.is_floating_point())


def _precision(voter: Voter, wide: bool) -> AbstractContextManager[Any]:
    """32 bits, also within a caller's autocast; a network that is kept in 16 runs as it votes."""
    kind = voter.device.type
    if not wide and voter.dtype is not torch.float32:
        return torch.autocast(kind, dtype=voter.dtype)
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
