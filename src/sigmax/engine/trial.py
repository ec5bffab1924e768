"""A trial before any vote: does the answer for an input depend on the rest of its batch?

# a trial batch holds copies of a few rows; all its other rows are neighbours

Two questions, because arithmetic answers them differently:

1. Neighbours are exchanged for far ones, at the same places of a batch of the same size. The arithmetic of a row is the
   same then, and so are its bits, whatever the precision; so a leak of a small share of the batch's mean is seen.
2. The same rows stand at many places of batches of different sizes. Other kernels may run there and round otherwise, so
   the answers agree up to the precision. This sees code that asks for the size of the batch or the place in it.

A trial is evidence and no proof: it tries a few sizes on one input. Code that behaves otherwise at a size that is not
tried, or by less than rounding at one that is, is not seen.
"""

from collections.abc import Callable
from typing import NoReturn

import torch
from torch import Tensor, nn

from sigmax.engine.outputs import alike
from sigmax.errors import RequestError

Call = Callable[[Tensor], Tensor]  # a batch to logits or class ids
ROWS = 4  # inputs whose answers are compared
COPIES = 8 * ROWS  # noisy copies of an input that a trial is made of
SMALL = 2 * ROWS  # rows of a small trial batch
FEWEST = 2  # a program that was exported for any number of rows may refuse one
FAR = 10.0  # how far neighbours lie, in sizes of the input
# Of the spread of a row's logits.
SAME_ARITHMETIC = 1e-4
OTHER_ARITHMETIC = {torch.float32: 1e-2, torch.float16: 5e-2, torch.bfloat16: 0.2}


def small_trial(plain: Call, noisy: Tensor) -> Tensor:
    """Exchange neighbours in a small batch; the answers for its rows, for the other trials to compare with."""
    return _exchange_neighbours(plain, noisy, SMALL)[: len(held(SMALL))]


def pair_trial(plain: Call, noisy: Tensor, reference: Tensor, dtype: torch.dtype) -> None:
    """Compare the smallest batch with a small one. Here the first row is an input too, and not a neighbour."""
    pair = plain(noisy[:FEWEST].clone())  # a model may work in place
    _compare(pair, reference[:FEWEST], OTHER_ARITHMETIC[dtype], f"{FEWEST} and in one of {SMALL}")


def large_trial(voting: Call, noisy: Tensor, size: int, reference: Tensor, dtype: torch.dtype) -> None:
    """Try the model in batches of `size`, as it will vote, and compare with its answers in small ones."""
    answers = _exchange_neighbours(voting, noisy, size)
    same = reference[torch.arange(len(answers), device=answers.device) % ROWS]
    _compare(answers, same, OTHER_ARITHMETIC[dtype], f"{size} and in one of {SMALL}")


def _exchange_neighbours(call: Call, noisy: Tensor, size: int) -> Tensor:
    """The answers for the copies in a batch of `size`, which other neighbours must not change."""
    places = held(size).to(noisy.device)
    near, far = (call(batch)[places] for batch in trial_batches(noisy, size))
    if not alike(near, far, SAME_ARITHMETIC):
        _refuse(f"in a batch of {size} other neighbours changed it")
    return near


def trial_batches(noisy: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The same rows at the same places, among their like and among far neighbours.

    Far ones lie on both sides of the input, more of them on one: so mean, largest and smallest of the batch move.
    """
    rows = torch.arange(size, device=noisy.device)
    place = ROWS + rows % (len(noisy) - ROWS)
    places = held(size).to(noisy.device)
    place[places] = torch.arange(len(places), device=noisy.device) % ROWS
    near = noisy[place]
    side = torch.where(rows % 4 == 1, -1.0, 1.0)
    for end in (0, -1):  # a class that the first or the last row decides should change
        side[end] = -1.0 if float(near[end].sum()) > 0 else 1.0
    side *= FAR * (float(noisy.abs().max()) or 1.0)
    far = 3 * near + side.view(-1, *[1] * (noisy.ndim - 1))
    far[places] = near[places]
    return near, far


def held(size: int) -> Tensor:
    """The places of a batch that hold copies, about half of them in no order; its first and last are neighbours."""
    inner = torch.arange(1, size - 1) if size > 2 else torch.arange(size)
    mixed = inner[torch.randperm(len(inner), generator=torch.Generator().manual_seed(size))]
    return mixed[: max(1, size // 2)]


def _compare(answers: Tensor, same: Tensor, within: float, sizes: str) -> None:
    if answers.is_floating_point():
        agree = alike(answers, same, within)
    else:  # Rounding may decide a tie of one row otherwise, wherever that row stands.
        wrong = torch.arange(len(answers), device=answers.device)[answers != same] % ROWS
        agree = len(set(wrong.tolist())) <= (1 if len(same) >= ROWS else 0)
    if not agree:
        _refuse(f"in a batch of {sizes} it differs")


def _refuse(found: str) -> NoReturn:
    raise RequestError(
        f"the model's answer for an input changes with the other inputs of its batch ({found}), so no certificate "
        "would hold; use running statistics in its normalisation layers, call .eval() on a wrapped module, "
        "and take randomness out"
    )


def stamp(model: object) -> object:
    """What tells whether a module's tensors changed, by their content; None where that cannot be known.

    Of a function nothing is known: it may hold a network that was trained or put into training mode meanwhile.
    """
    if not isinstance(model, nn.Module):
        return None
    tensors = [*model.parameters(), *model.buffers()]
    try:
        sums = [tensor.detach().sum(dtype=torch.float64) for tensor in tensors]
        return [float(one) for one in torch.stack([one.to(sums[0].device) for one in sums])] if sums else []
    except (RuntimeError, NotImplementedError):  # a kind of tensor that cannot be summed
        return None
