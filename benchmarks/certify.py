"""Cohen et al.'s reference loop against the sigmax engine: same network, inputs, n0, n and alpha, in one run.

    python benchmarks/certify.py                   # small CNN on 8x8 and 28x28, ResNet-20 on 32x32
    python benchmarks/certify.py --quick --json out.json

The rival samples as every public script does (`sigmax.bench.reference_loop`) and takes its bounds from statsmodels.
Each contender has a process of its own, as its users run it. Machines are noisy, so the two take turns and the ratio
of their best times is what counts.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import torch
from statsmodels.stats.proportion import proportion_confint
from torch import Tensor, nn

import sigmax as sx
from sigmax import models
from sigmax.bench.reference_loop import count_votes


class Case(NamedTuple):
    """A network, the shape of its inputs, and how many of them to certify at n = 100, 1,000 and 10,000."""

    network: str
    shape: tuple[int, int, int]
    inputs: tuple[int, int, int]


SIGMA, N0, ALPHA = 0.5, 100, 0.001


def rival(model: nn.Module, images: Tensor, n: int, classes: int) -> list[float]:
    """Radii by the reference loop."""
    radii = []
    for x in images:
        top = int(np.argmax(count_votes(model, x, SIGMA, N0, classes)))
        hits = count_votes(model, x, SIGMA, n, classes)[top]
        lower = proportion_confint(hits, n, alpha=2 * ALPHA, method="beta")[0]
        radii.append(SIGMA * float(scipy.special.ndtri(lower)) if lower > 0.5 else 0.0)
    return radii


def engine(model: nn.Module, images: Tensor, n: int, classes: int) -> list[float]:
    """Radii by sigmax."""
    smoothed = sx.Smoothed(model, sigma=SIGMA, classes=classes)
    return [c.radius for c in smoothed.certify(images, n0=N0, n=n, alpha=ALPHA)]


def seconds(contender: str, case: Case, n: int, inputs: int) -> float:
    """Wall-clock time of one contender on one case, after a short warm-up; runs in the contender's process."""
    torch.manual_seed(0)
    model = models.build(case.network, classes=10, input_shape=case.shape).eval()
    images = torch.rand(inputs, *case.shape)
    work = {"reference": rival, "sigmax": engine}[contender]
    work(model, images[:1], N0, 10)
    start = time.perf_counter()
    work(model, images, n, 10)
    return time.perf_counter() - start


def compare(pools: dict[str, Executor], case: Case, n: int, inputs: int, repeats: int) -> dict[str, Any]:
    """Best time of each contender; they take turns so that a slow moment hits both."""
    times: dict[str, list[float]] = {name: [] for name in pools}
    for _ in range(repeats):
        for name, pool in pools.items():
            times[name].append(pool.submit(seconds, name, case, n, inputs).result())
    votes = inputs * (N0 + n)
    best = {name: min(values) for name, values in times.items()}
    return {
        "network": f"{case.network} {'x'.join(map(str, case.shape))}",
        "n": n,
        "inputs": inputs,
        "reference_votes_per_s": votes / best["reference"],
        "sigmax_votes_per_s": votes / best["sigmax"],
        "ratio": best["reference"] / best["sigmax"],
    }


CASES = (
    Case("small-cnn", (1, 8, 8), (200, 60, 20)),
    Case("small-cnn", (1, 28, 28), (40, 12, 4)),
    Case("resnet20", (3, 32, 32), (24, 3, 1)),
)


def main() -> None:
    """Print one row a case."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--quick", action="store_true", help="only the smallest network")
    cli.add_argument("--inputs", type=int, help="no more inputs than this, to see that it runs")
    cli.add_argument("--repeats", type=int, default=3, help="turns each contender takes")
    cli.add_argument("--json", type=Path, help="also write the rows to this file")
    args = cli.parse_args()
    rows = []
    print(f"{'network':20} {'n':>6} {'inputs':>6} {'loop votes/s':>14} {'sigmax votes/s':>15} {'ratio':>6}")
    with _process() as reference, _process() as sigmax:
        pools: dict[str, Executor] = {"reference": reference, "sigmax": sigmax}
        for case in CASES[:1] if args.quick else CASES:
            for n, most in zip((100, 1_000, 10_000), case.inputs, strict=True):
                inputs = min(most, args.inputs or most)
                row = compare(pools, case, n, inputs, args.repeats)
                rows.append(row)
                print(
                    f"{row['network']:20} {n:6} {inputs:6} {row['reference_votes_per_s']:14,.0f} "
                    f"{row['sigmax_votes_per_s']:15,.0f} {row['ratio']:6.2f}",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    main()
