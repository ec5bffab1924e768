"""What the rounds of a certification cost beside its votes: rounds, rows that were run in vain, the host's seconds.

    python -m benchmarks.rounds --inputs 8 40 200

The networks cost next to nothing here. An image holds the number of one of `results/cifar10` beside a number for the
noise; a vote is the class that the noise picks by the shares recorded for that image. So rounds and samples are as
many as on CIFAR-10. Batches are those of a compiled network: full ones, and pieces of an eighth for a small rest.
Each is measured twice: with padding in the last batch of a round, and with the votes that the engine casts there.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

import sigmax as sx
from benchmarks.cascade import questions
from benchmarks.cascade_samples import PARTS, RESULTS, Shares, filled, recorded
from sigmax.engine import rounds as engine
from sigmax.engine import votes
from sigmax.engine.voter import Voter
from sigmax.schemes.scheme import Scheme

BATCH = 4096
SIGMAS = {"level-0": 0.86, "level-1": 0.52, "last": 0.33}  # of the cascade's parts
APART, DIGITS = 16.0, 50  # an image's number has two digits to this base, so far apart that no noise moves one


class Recorded(nn.Module):
    """Votes by the shares of the image that the first two numbers name, picked by the noise on the third."""

    def __init__(self, shares: list[np.ndarray], sigma: float) -> None:
        super().__init__()
        ends = np.cumsum(np.array(shares), axis=1)
        self.ends = nn.Parameter(torch.tensor(ends, dtype=torch.float64), requires_grad=False)
        self.sigma, self.defers = sigma, ends.shape[1] > 10
        self.rows: list[int] = []  # of each batch that was run

    def forward(self, batch: Tensor) -> Tensor:
        """Class ids."""
        self.rows.append(len(batch))
        digits = (batch[:, :2] / APART).round().long()
        image = (digits[:, 0] * DIGITS + digits[:, 1]).clamp(0, len(self.ends) - 1)
        uniform = torch.special.ndtr(batch[:, 2].double() / self.sigma)
        return torch.searchsorted(self.ends[image], uniform[:, None])[:, 0].clamp(max=self.ends.shape[1] - 1)


def schemes(images: int) -> tuple[dict[str, Scheme], Tensor]:
    """Constant noise with each network, the cascade of all three, and images spread over those that were recorded."""
    runs = {"cascade": filled(recorded(RESULTS / "cascade.jsonl.gz"))}
    runs |= {part: recorded(RESULTS / f"constant-{sigma}.jsonl.gz") for part, sigma in SIGMAS.items()}
    shared = sorted(set.intersection(*map(set, runs.values())))
    chosen = [shared[i] for i in np.linspace(0, len(shared) - 1, images).astype(int)]
    constant: dict[str, Scheme] = {
        f"sigma {sigma:g}": smoothed([runs[part][i] for i in chosen], "", sigma) for part, sigma in SIGMAS.items()
    }
    *levels, last = [smoothed([runs["cascade"][i] for i in chosen], part, SIGMAS[part]) for part in PARTS]
    number = torch.arange(images)
    x = torch.stack([number // DIGITS * APART, number % DIGITS * APART, torch.zeros(images)], dim=1)
    return {**constant, "cascade": sx.Cascade(levels, last)}, x


def smoothed(images: list[Shares], part: str, sigma: float) -> sx.Smoothed:
    """A network that votes by these shares, run as a compiled one is."""
    scheme = sx.Smoothed(Recorded([shares[part] for shares in images], sigma), sigma=sigma, classes=10, batch=BATCH)
    scheme.voters["base"].mode = "default"  # in batches of two sizes; nothing is compiled
    return scheme


def measure(scheme: Scheme, x: Tensor, asked: dict[str, Any], *, ahead: bool) -> dict[str, float]:
    """Rounds, rows and seconds of one certification; `ahead`: with votes where padding would be."""
    networks = [voter.model for voter in scheme.voters.values() if isinstance(voter.model, Recorded)]
    rounds, answer, padding = list[int](), votes.answer, Voter.padding

    def counted(*given: Any) -> Any:
        rounds.append(1)
        return answer(*given)

    ahead_or_not = patch.object(Voter, "padding", padding if ahead else lambda *_: 0)
    with patch.object(engine, "answer", counted), patch.object(engine, "HOST", "none"), ahead_or_not:  # as on a GPU
        scheme.certify(x, **asked)  # bounds are looked up from here on
        tried = [_ran(network, lambda: scheme.check(x)) for network in networks]
        for network in networks:
            network.rows.clear()
        rounds.clear()
        begun = time.process_time()
        found = scheme.certify(x, **asked)
        seconds = time.process_time() - begun
    run = [n for network, skip in zip(networks, tried, strict=True) for n in network.rows[skip:]]
    return {
        "rounds": len(rounds),
        "batches": len(run),
        "rows": sum(run) / len(x),
        "samples": sum(c.samples for c in found) / len(x),
        "seconds": seconds,
    }


def _ran(network: Recorded, work: Callable[[], object]) -> int:
    """How many batches of a network some work runs."""
    before = len(network.rows)
    work()
    return len(network.rows) - before


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each question and scheme, padded and with votes ahead."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--inputs", type=int, nargs="+", default=[8, 40, 200])
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--single", type=float, nargs="*", default=[0.5])
    cli.add_argument("--only", nargs="*", help="ask these questions alone, such as fixed 'eleven radii'")
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args(arguments)
    rows = list[dict[str, Any]]()
    for inputs in asked.inputs:
        found, x = schemes(inputs)
        for question, how in questions(asked.n, asked.single).items():
            if asked.only and question not in asked.only:
                continue
            for name, scheme in found.items():
                padded, ahead = (measure(scheme, x, how, ahead=ahead) for ahead in (False, True))
                of = {"inputs": inputs, "question": question, "scheme": name}
                rows.append({**of, "padded": padded, "ahead": ahead})
                shares = [f"{row['samples'] / row['rows']:4.0%}" for row in (padded, ahead)]
                print(
                    f"{inputs:4} {question:>12} {name:>10}: {ahead['samples']:6,.0f} samples an image; rounds "
                    f"{padded['rounds']:3} -> {ahead['rounds']:3}, batches {padded['batches']:4} -> "
                    f"{ahead['batches']:4}, rows of use {shares[0]} -> {shares[1]}, host "
                    f"{1000 * padded['seconds']:5.0f} -> {1000 * ahead['seconds']:5.0f} ms",
                    flush=True,
                )
    if asked.out:
        asked.out.write_text(json.dumps({"asked": {**vars(asked), "out": None}, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
