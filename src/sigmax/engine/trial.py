"""A trial before any vote: does the answer for an input depend on the rest of its batch?

# a copy: a noisy copy of an input; held rows of a trial batch keep their copies while the others are exchanged
# a difference is one of logits, in units of their spread (`differences`)

Two questions, because arithmetic answers them differently:

1. The rows that are not held are exchanged for far ones, in a batch of the same size. The kernels are the same then,
   and so are the bits of the held rows' answers: on a CPU and an H200, in 32 and 16 bits, compiled or not, the
   difference was 0 for every network measured. A leak of 0.4% of the batch's mean gave at least 9e-3. The limit is
   1e-4. Where the same batch gives other bits when it is repeated, four times that difference is allowed.
2. The same copies stand at every place of batches of several sizes. Other kernels run there and round differently, so
   the limit is ten times the largest difference measured (`ROUNDING`): 1e-3 in 32 bits, whose convolutions a GPU rounds
   to TF32 (2e-7 on a CPU), and 1e-2 in 16 bits, compiled. bfloat16 has twice that, since its error grows with depth.
   This sees code that asks for the size of the batch or the place in it.

The sizes are 2, 8, the one that votes, and one between; the last two in the form that votes, compiled or not. Rows of 8
are exchanged among copies of all inputs; everything else starts from copies of one, as most batches that vote do.
`benchmarks/trial.py` prints the differences on the machine at hand.

A trial is evidence and no proof. It does not see code that behaves otherwise at another size or for other inputs, a
change within rounding, or one that leaves the class as it is where the model returns class ids.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import torch
from torch import Tensor, nn

from sigmax.engine.outputs import differences
from sigmax.errors import RequestError
from sigmax.models.content import weights_of

Call = Callable[[Tensor], Tensor]  # a batch to logits or class ids
COPIES = 32  # noisy copies that a trial is made of
SMALL = 8  # rows of a small trial batch
PAIR = 2  # and not one row, which a program that was exported for any number of rows may refuse
FAR = 10.0  # how far exchanged rows lie, in sizes of the input
SAME_KERNELS = 1e-4
REPEATED = 4
ROUNDING = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}
MARGIN = 10
TIES = 1 / 8  # of class ids, which rounding may decide otherwise; of a network in bfloat16 it is about one in a hundred


@dataclass(frozen=True)
class TrialBatch:
    """The rows of a trial batch as they are first, and after those that are not held were exchanged."""

    copy: Tensor  # which copy stands in each row
    held: Tensor
    near: Tensor
    far: Tensor


def small_trial(plain: Call, noisy: Tensor, dtype: torch.dtype) -> None:
    """Exchange rows of a small batch."""
    _exchange(plain, trial_batch(noisy, SMALL), dtype)


def answers_in_small_batches(plain: Call, noisy: Tensor) -> Tensor:
    """The answers for all copies, for the other trials to compare with."""
    return torch.cat([plain(some.clone()) for some in torch.split(noisy, SMALL)])  # a model may work in place


def pair_trial(plain: Call, noisy: Tensor, reference: Tensor, dtype: torch.dtype) -> None:
    """Compare batches of two with small ones; a copy stands at another place in the two."""
    shifted = torch.arange(1, 1 + SMALL, device=noisy.device)
    pairs = torch.cat([plain(pair.clone()) for pair in torch.split(noisy[shifted], PAIR)])
    _compare(pairs, reference, shifted, dtype, PAIR)


def large_trial(voting: Call, noisy: Tensor, size: int, reference: Tensor, dtype: torch.dtype) -> None:
    """Try batches of `size` in the form that votes: exchange rows, and compare every row with small batches."""
    batch = trial_batch(noisy, size)
    answers = _exchange(voting, batch, dtype)
    _compare(answers, reference, batch.copy, dtype, size)


def between(size: int) -> int:
    """A size between a small batch and a full one, as the last batch of a round may have."""
    return math.isqrt(SMALL * size)


def trial_batch(noisy: Tensor, size: int) -> TrialBatch:
    """Copies in no order, of which half are held. The first and the last row are exchanged, where there are others.

    Exchanged rows lie far on both sides of the input, more of them on one: so mean, largest and smallest of the batch
    move.
    """
    copy, held = (one.to(noisy.device) for one in _places(len(noisy), size))
    near = noisy[copy]
    side = torch.where(torch.arange(size, device=noisy.device) % 4 == 1, -1.0, 1.0).to(noisy.dtype)
    for end in (0, -1):  # a class that the first or the last row decides should change
        side[end] = -1.0 if float(near[end].sum()) > 0 else 1.0
    side *= FAR * (float(noisy.abs().max()) or 1.0)
    far = 3 * near + side.view(-1, *[1] * (noisy.ndim - 1))
    far[held] = near[held]
    return TrialBatch(copy, held, near, far)


@lru_cache(maxsize=16)  # every check of inputs asks for the same few
def _places(copies: int, size: int) -> tuple[Tensor, Tensor]:
    """Which copy stands in each row, and which rows are held; the same whenever it is asked."""
    generator = torch.Generator().manual_seed(size)
    orders = [torch.randperm(copies, generator=generator) for _ in range(-(-size // copies))]
    held = torch.zeros(size, dtype=torch.bool)
    inner = torch.arange(1, size - 1) if size > 2 else torch.arange(size)
    held[inner[torch.randperm(len(inner), generator=generator)][: max(1, size // 2)]] = True
    return torch.cat(orders)[:size], held


def _exchange(call: Call, batch: TrialBatch, dtype: torch.dtype) -> Tensor:
    """The answers for a batch, where an exchange of some rows leaves those of the others as they are."""
    first = call(batch.near.clone())
    other = call(batch.far)
    moved = float(differences(first[batch.held], other[batch.held]).max())
    if moved > SAME_KERNELS:
        by_itself = float(differences(first, call(batch.near)).max())
        if by_itself > ROUNDING[_coarser(dtype, first)]:
            _refuse("when the same batch is repeated", by_itself, RANDOM)
        if moved > max(SAME_KERNELS, REPEATED * by_itself):
            _refuse(f"with the other inputs of its batch, of {len(first)} rows", moved, OTHERS)
    return first


def _compare(answers: Tensor, reference: Tensor, copy: Tensor, dtype: torch.dtype, size: int) -> None:
    """Every copy must be answered as in a small batch wherever it stands, up to rounding."""
    apart = differences(reference[copy], answers)
    wrong = apart > MARGIN * ROUNDING[_coarser(dtype, answers)]
    if float(wrong.float().mean()) <= (0 if answers.is_floating_point() else TIES):
        return
    somewhere, elsewhere = (set(copy[rows].tolist()) for rows in (wrong, ~wrong))
    depends = "its place in the batch" if somewhere & elsewhere else "the size of its batch"
    found = f"{int(wrong.sum())} of {len(wrong)} answers in batches of {size} are not those in batches of {SMALL}"
    _refuse(f"with {depends}, as {found}", float(apart.max()), SIZE)


def _coarser(dtype: torch.dtype, answers: Tensor) -> torch.dtype:
    """A function may compute in 16 bits whatever it is asked for; then its logits show it."""
    return max(dtype, answers.dtype, key=lambda one: ROUNDING.get(one, 0.0))


OTHERS = (
    "Use running statistics in its normalisation layers, call .eval() on a module that a function wraps, and compute "
    "each row from itself alone"
)
RANDOM = "Call .eval() on a module that a function wraps, and take randomness out of it"
SIZE = (
    "Look for code that reads the size of the batch or the index of a row, and compute each row from itself alone; if "
    "it is rounding, try dtype='fp32' and compile=False"
)


def _refuse(found: str, apart: float, advice: str) -> NoReturn:
    by = "to another class" if math.isinf(apart) else f"by {apart:.1g} of the logits' spread"
    raise RequestError(
        f"the model's answer for an input changes {found} ({by}), so no certificate would hold. {advice}"
    )


def state_of(model: object) -> str | None:
    """What tells whether a module's tensors changed, by their content; None where that cannot be known.

    Of a function nothing is known: it may hold a network that was trained or put into training mode meanwhile.
    """
    if not isinstance(model, nn.Module):
        return None
    try:
        return weights_of(model)
    except (RuntimeError, NotImplementedError):  # a kind of tensor that has no plain bytes
        return None
