"""What a model returned, as votes: checked, and refused where counting it would be a guess. And what it raised."""

from typing import Any

import torch
from torch import Tensor

from sigmax.errors import RequestError, RunError, resizing

MASKED = -50.0  # a class this far behind the leading one is out of the vote

_ONE_INPUT = ". If the input is a single one and not a batch, add the batch axis: x[None]"
_OTHER_SIZE = f". Pictures of another size are resized by {resizing()}"
_HINTS = {2: _ONE_INPUT, 3: _ONE_INPUT, 4: _OTHER_SIZE}  # by the axes of a batch


def raised_by_model(error: Exception, batch: Tensor, device: torch.device) -> RequestError:
    """A refusal in the model's own words, with the batch it was given and what may be wrong with that."""
    return RequestError(
        f"{type(error).__name__}: {error} (raised by the model when given a trial batch of shape "
        f"{tuple(batch.shape)}, {batch.dtype}, on {device}){_HINTS.get(batch.ndim, '')}"
    )


def class_ids(output: Any, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Votes from logits (rows, classes) or class ids (rows,), and whether any of them is invalid."""
    if not isinstance(output, Tensor) or output.shape[:1] != (rows,) or output.ndim > 2:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise RequestError(
            f"the model must return logits of shape (batch, {classes}) or class ids of shape (batch,); "
            f"for a batch of {rows} it returned {shape}"
        )
    if output.ndim == 1:
        if output.is_floating_point() or output.is_complex() or output.dtype is torch.bool:
            raise RequestError(
                f"class ids must be integers; the model returned {output.dtype} of shape {tuple(output.shape)}. "
                f"Return logits of shape (batch, {classes}), or ids such as logits.argmax(1)"
            )
        # Clamped so that an invalid id cannot be counted out of bounds before its flag is read.
        return output.long().clamp(0, classes - 1), ((output < 0) | (output >= classes)).any()
    if output.is_complex() or output.dtype is torch.bool:
        raise RequestError(f"logits must be real numbers; the model returned {output.dtype}")
    if output.shape[1] != classes:
        raise RequestError(
            f"the scheme counts classes={classes}, but the model returns {output.shape[1]} logits an input; "
            "make the two agree"
        )
    return output.argmax(1), output.isnan().any()


def refuse_invalid(batches: int, classes: int) -> None:
    """Raise if a batch had a vote that was no class: counting it anywhere would be a guess."""
    if batches:
        raise RunError(
            f"the model returned NaN logits or a class id outside 0..{classes - 1}; no votes were counted for "
            "this input. Check the weights, and the precision (dtype) they run in"
        )


def differences(first: Tensor, second: Tensor) -> Tensor:
    """How far each row's answers lie apart: logits in spreads of all rows' logits; class ids 0 or infinitely far."""
    if not first.is_floating_point():
        return torch.where(first == second, 0.0, torch.inf)
    # Only what can decide the vote counts: a class that is masked out must not make the rest look alike.
    one, other = (torch.nan_to_num((t - t.amax(1, keepdim=True)).float()).clamp(min=MASKED) for t in (first, second))
    spread = one[one > MASKED].abs().max()  # never empty: the leading class of each row stands at 0
    apart = (one - other).abs().amax(1) / spread.clamp(min=torch.finfo(torch.float32).tiny)
    return apart.masked_fill((first.isfinite() != second.isfinite()).any(1), torch.inf)
