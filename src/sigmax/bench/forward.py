"""The ceiling of any certification: how fast a network is when nothing but its forward passes run."""

import time

import torch
from torch import Tensor

from sigmax.engine.settings import keep_freed_memory
from sigmax.engine.voter import Voter, voting

SECONDS = 0.5  # that a network is timed for, at least
AT_ONCE = 8  # batches between two looks at the clock: a GPU is given its work ahead


def seconds_per_vote(
    voter: Voter, x: Tensor, sigma: float, *, seconds: float | None = None, batch: int | None = None
) -> float:
    """Of batches (full ones unless given) of an input like x (1, ...), run as for votes: no noise, no counting.

    A compiled network gets full batches whatever is asked, since another size would be compiled for itself.
    """
    least = SECONDS if seconds is None else seconds
    copies = voter.batch if batch is None or voter.compiled else min(batch, voter.batch)
    images = x[:1].to(voter.device).expand(copies, *x.shape[1:]).contiguous()
    keep_freed_memory()  # as the engine does; else page faults would be timed
    with voting([voter]):
        voter.output(images, sigma)  # compiles, where it is asked to
        wait(voter.device)
        runs, begun = 0, time.perf_counter()
        while (passed := time.perf_counter() - begun) < least:
            for _ in range(AT_ONCE if voter.device.type == "cuda" else 1):
                voter.output(images, sigma)
                runs += 1
            wait(voter.device)
    return passed / (runs * len(images))


def wait(device: torch.device) -> None:
    """Until what was asked of a GPU is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
