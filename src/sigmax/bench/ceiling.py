"""How many operations a second the device can do at best, and how many a network needs for one vote."""

import time

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from sigmax.noise.voter import Voter

SECONDS = 0.5
SIDE = {"cuda": 8192, "cpu": 1024}  # of the square matrices: large enough to keep every unit busy


def ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a product of two large matrices, as measured now; an addition counts as one."""
    side = SIDE.get(device.type, 1024)
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    _product(a, b)
    runs, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < SECONDS:
        _product(a, b)
        runs += 1
    return 2 * side**3 * runs / passed


def operations(voter: Voter, x: Tensor, sigma: float) -> int:
    """Operations of matrix products and convolutions for one vote on an input like x (1, ...)."""
    batch = x.to(voter.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        _ = voter.model(batch, sigma) if voter.takes_sigma else voter.model(batch)
    return int(counter.get_total_flops())


def _product(a: Tensor, b: Tensor) -> None:
    _ = a @ b
    if a.device.type == "cuda":
        torch.cuda.synchronize(a.device)
