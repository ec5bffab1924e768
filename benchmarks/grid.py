"""Noise on the grid of 8-bit images against noise in floats: seconds and certificates, in one run.

    python benchmarks/grid.py zoo:cifar10-cascade --data cifar10:PATH --max 50 --n 1000
    python benchmarks/grid.py SYSTEM --data cifar10:PATH --device cuda

First the noisy copies alone, of one image of the data and of one of 3x224x224; then the same images certified by the
same networks with the same seed. Each pair is timed in turns, and the least time of each is compared. Printed last: on
how many images both give the same class, and certified accuracy at each radius.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import sigmax as sx
from sigmax.engine.fillers import filler_for
from sigmax.engine.inputs import Item, Noisy
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest
from sigmax.systems import on_grid

RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
COPIES = 1024
TURNS = 7


def in_turns(one: Callable[[], Any], other: Callable[[], Any], turns: int) -> tuple[float, float]:
    """The least seconds of each."""
    best = [float("inf"), float("inf")]
    for _ in range(turns):
        for place, work in enumerate((one, other)):
            begun = time.perf_counter()
            work()
            best[place] = min(best[place], time.perf_counter() - begun)
    return best[0], best[1]


def filling(shape: Sequence[int], grid: int | None, device: torch.device, batch: int) -> Callable[[], None]:
    """What makes noisy copies of one image, batch by batch as the engine does."""
    noise = sx.noise.Gaussian(0.5, grid)
    item = Item(0, (VoteRequest("", Role.ESTIMATION, 2, noise, COPIES),))
    filler = filler_for(device, Noisy(torch.zeros(1, *shape), [0], 0), [item], batch)

    def fill() -> None:
        for first in range(0, COPIES, batch):
            filler.fill([(0, first, first + batch)])
        if device.type == "cuda":
            torch.cuda.synchronize()

    return fill


def main() -> None:
    """Time both, and compare what they certify."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("--data", required=True)
    parser.add_argument("--grid", type=int, default=255)
    parser.add_argument("--max", type=int, default=100)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=1, help="certifications of each kind")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    data = sx.data.load(options.data, "test")
    indices = sx.data.select(len(data), skip=len(data) // options.max, maximum=options.max)
    x, labels = data.pixels(indices), np.asarray(data.labels)[indices]
    for shape in (x.shape[1:], (3, 224, 224)):
        device, batch = torch.device(options.device), 128
        work = [filling(shape, grid, device, batch) for grid in (None, options.grid)]
        floats, steps = in_turns(work[0], work[1], TURNS)
        named = "x".join(map(str, shape))
        print(f"{COPIES} noisy copies of {named}: floats {floats:.4f} s, grid {steps:.4f} s, x{steps / floats:.3f}")
    schemes = [sx.load(options.system, device=options.device)]
    schemes.append(on_grid(schemes[0], options.grid))
    found: list[list[sx.Certificate]] = [[], []]

    def certify(place: int) -> None:
        found[place] = schemes[place].certify(x, n=options.n, seed=0)

    for scheme in schemes:
        scheme.certify(x[:1], n=options.n, seed=0)  # compiles and settles what it must
    floats, steps = in_turns(lambda: certify(0), lambda: certify(1), options.turns)
    print(f"{len(x)} images certified, n={options.n}: floats {floats:.2f} s, grid {steps:.2f} s, x{steps / floats:.3f}")
    same = np.mean([a.predicted == b.predicted for a, b in zip(*found, strict=True)])
    moved = np.abs([a.radius - b.radius for a, b in zip(*found, strict=True)])
    print(f"same class on {100 * same:.1f}% of the images; radii differ by {moved.mean():.4f} on average")
    for name, certificates in zip(("floats", "grid"), found, strict=True):
        right = [[c.predicted == y and c.radius >= r for c, y in zip(certificates, labels, strict=True)] for r in RADII]
        print(
            f"{name:>6}: "
            + ", ".join(f"{100 * np.mean(row):.1f}% at {r:g}" for row, r in zip(right, RADII, strict=True))
        )


if __name__ == "__main__":
    main()
