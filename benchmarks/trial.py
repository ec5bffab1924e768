"""How far honest answers differ between batches, and those of a network that leaks 0.4% of its batch's mean.

    python -m benchmarks.trial zoo:digits-cascade [--device cuda] [--dtype bf16] [--compile default]

Differences are in spreads of the logits, as the limits of `sigmax.engine.trial` are; also the seconds of a check.
"""

import argparse
import time

import torch

import sigmax as sx
from sigmax.engine import trial
from sigmax.engine.outputs import differences
from sigmax.engine.voter import Voter, voting
from sigmax.noise.gaussian import trial_copies
from sigmax.systems.behaviour import input_shape

LEAK = 0.004


def measure(voter: Voter, noisy: torch.Tensor, sigma: float) -> str:
    """The largest difference between sizes, at an exchange of rows, and at an exchange where the network leaks."""

    def call(batch: torch.Tensor, form: object = voter.model) -> torch.Tensor:
        return voter._trial(form, batch, sigma)  # type: ignore[arg-type]  # a model, compiled or not

    with voting([voter]):
        reference = trial.answers_in_small_batches(call, noisy)
        batch = trial.trial_batch(noisy, voter.batch)
        near, far = (call(one, voter._forward) for one in (batch.near.clone(), batch.far))
    held = batch.held
    leaking = [(one + LEAK * one.mean(0))[held] for one in (near, far)]
    sizes = float(differences(reference[batch.copy], near).max())
    exchange, leak = (float(differences(*pair).max()) for pair in ((near[held], far[held]), leaking))
    return f"batch {voter.batch}: sizes {sizes:.1e}, exchange {exchange:.1e}, exchange with a leak {leak:.1e}"


def main() -> None:
    """Print a line for each network of a system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system")
    for option in ("device", "dtype"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--compile", default="off")
    given = parser.parse_args()
    scheme = sx.load(given.system, device=given.device, dtype=given.dtype, compile=given.compile)
    x = torch.rand(4, *input_shape(scheme), generator=torch.Generator().manual_seed(0))
    for name, voter in scheme.voters.items():
        sigma, seconds = scheme.sigma_of(name), []
        for _ in range(2):
            begun = time.perf_counter()
            voter.check(x, sigma)
            seconds.append(time.perf_counter() - begun)
        noisy = trial_copies(x, sigma, trial.COPIES).to(voter.device)
        first, again = seconds
        print(f"{name} {measure(voter, noisy, sigma)}; check {first:.2f} s, again {again:.2f} s", flush=True)


if __name__ == "__main__":
    main()
