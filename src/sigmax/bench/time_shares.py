"""Where the time of a vote goes in a network that denoises first: the share of each of its two parts."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from sigmax.bench.forward import wait
from sigmax.engine.voter import Voter, voting
from sigmax.models import Denoised
from sigmax.schemes.scheme import Scheme

SECONDS = 0.3  # a part is timed for, at least
MOST = 512  # inputs of a batch: enough to fill a device, and it fits

Shares = Mapping[str, float]  # of a vote's time, by part; they add up to 1


def time_shares(scheme: Scheme, x: Tensor) -> dict[str, Shares]:
    """For every network of the scheme that denoises first, by its name, the share of its parts in a vote's time.

    Measured on noisy copies of an input like x (1, ...), on the network's device and in its precision, but not
    compiled: a compiled pair is one program, whose parts cannot be timed by themselves. One that has several names is
    measured once, for each sigma.
    """
    known: dict[tuple[int, float], Shares] = {}
    found: dict[str, Shares] = {}
    for name, voter in scheme.voters.items():
        if isinstance(voter.model, Denoised):
            key = id(voter), scheme.sigma_of(name)
            if key not in known:
                known[key] = shares(voter, x, key[1])
            found[name] = known[key]
    return found


def shares(voter: Voter, x: Tensor, sigma: float) -> Shares:
    """The shares of denoiser and classifier."""
    model = voter.model
    assert isinstance(model, Denoised)
    copies = x[:1].to(voter.device).expand(min(voter.batch, MOST), *x.shape[1:])
    noisy = copies + sigma * torch.randn_like(copies)  # what is timed does not depend on the noise
    autocast = torch.autocast(voter.device.type, dtype=voter.dtype, enabled=voter.dtype is not torch.float32)
    with voting([voter]), torch.inference_mode(), autocast:
        clean = model.denoise(noisy, sigma)
        seconds = {
            "denoiser": _seconds(lambda: model.denoise(noisy, sigma), voter.device),
            "classifier": _seconds(lambda: model.classify(clean, sigma), voter.device),
        }
    return {part: taken / sum(seconds.values()) for part, taken in seconds.items()}


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """What the work takes, once it is warm."""
    work()
    wait(device)
    runs, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < SECONDS or runs < 2:
        work()
        runs += 1
        wait(device)
    return passed / runs
