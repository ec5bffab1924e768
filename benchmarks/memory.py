"""What a memory of certified balls costs: the time of a look-up among balls about real images.

    OMP_NUM_THREADS=1 python benchmarks/memory.py --data cifar10:PATH --out benchmarks/results/memory-cifar10.json

Every test image becomes a ball: its own class, and a radius sampled evenly from 0 to the largest given, settled as a
run settles it. Then images that are not among them are asked about, with a class and a radius of their own; and
images right beside a centre, which must be answered with what is left of that centre's ball. A run takes one
look-up an input (`explain`, which also says which balls decided), a prediction the plain one (`look_up`). The rival
is numpy's plain scan, the distance of the image from every centre in the given order, which proves no rounding.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import sigmax as sx
from sigmax.radius import Memory

SHIFT = 0.01  # how far the images beside a centre are from it


def filled(points: Any, labels: Any, radii: Any) -> tuple[Memory, float]:
    """A memory that answered all of these, in their order, and the seconds that took."""
    memory, begun = Memory(points.shape[1]), time.perf_counter()
    for x, label, radius in zip(points, labels, radii, strict=True):
        memory.answer(x, int(label), float(radius))
    return memory, time.perf_counter() - begun


def timed(look_up: Any, asked: Any) -> dict[str, float]:
    """Milliseconds of a look-up: the middle one, and what 95% of them stay below."""
    spent = []
    for question in asked:
        begun = time.perf_counter()
        look_up(*question)
        spent.append(1e3 * (time.perf_counter() - begun))
    return {"median_ms": float(np.median(spent)), "p95_ms": float(np.percentile(spent, 95))}


def scan(points: Any) -> Any:
    """The nearest ball by numpy alone."""
    return lambda x, label, radius: int(np.argmin(np.linalg.norm(points - x, axis=1)))


def beside(memory: Memory, points: Any, rng: np.random.Generator) -> list[tuple[Any, int, float]]:
    """Images a little beside a centre, each claimed for another class; checked to be answered as certified."""
    asked = []
    for place in rng.choice(len(points), 100, replace=False):
        step = rng.standard_normal(points.shape[1])
        x = (points[place] + SHIFT * step / np.linalg.norm(step)).astype(np.float32)
        claimed = (memory.labels[place] + 1) % 10
        found = memory.look_up(x, claimed, 0.5)
        if memory.radii[place] > 2 * SHIFT and found.label != memory.labels[place]:
            raise AssertionError(f"ball {place} was not kept")
        asked.append((x, claimed, 0.5))
    return asked


def measure(test: sx.data.Dataset, train: sx.data.Dataset, largest: float, lookups: int) -> dict[str, Any]:
    """The figures for balls of radii up to `largest`."""
    rng = np.random.default_rng(0)
    points = test.pixels(range(len(test))).reshape(len(test), -1)
    radii = largest * rng.random(len(test))
    memory, seconds = filled(points, test.needed_labels("a memory"), radii)
    others = rng.choice(len(train), lookups, replace=False)
    new = train.pixels(others).reshape(lookups, -1)
    labels = train.needed_labels("a memory")
    claims = [(x, int(labels[i]), largest) for x, i in zip(new, others, strict=True)]
    return {
        "balls": len(memory),
        "numbers": memory.dim,
        "largest_radius": largest,
        "shrunk": int(np.sum(np.array(memory.radii) < radii)),
        "filling_s": seconds,
        "look_up": timed(memory.look_up, claims),
        "explain": timed(memory.explain, claims),
        "scan": timed(scan(points), claims[:20]),
        "look_up_beside": timed(memory.look_up, beside(memory, points, rng)),
    }


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each size of balls."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--data", required=True, help="a source with the splits test (the balls) and train (asked about)")
    cli.add_argument("--radii", type=float, nargs="+", default=[1.0, 3.0, 6.0], help="largest radii of the balls")
    cli.add_argument("--lookups", type=int, default=200)
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args(arguments)
    test, train = sx.data.load(asked.data, "test"), sx.data.load(asked.data, "train")
    rows = []
    for largest in asked.radii:
        row = measure(test, train, largest, asked.lookups)
        rows.append(row)
        print(
            f"{row['balls']:,} balls of radii to {largest:g}, {row['shrunk']:,} shrunk: look-up "
            f"{row['look_up']['median_ms']:.2f} ms (95% below {row['look_up']['p95_ms']:.2f}), with what decided "
            f"{row['explain']['median_ms']:.2f} ({row['explain']['p95_ms']:.2f}), beside a centre "
            f"{row['look_up_beside']['median_ms']:.2f} ({row['look_up_beside']['p95_ms']:.2f}), numpy's plain scan "
            f"{row['scan']['median_ms']:.2f} ({row['scan']['p95_ms']:.2f}); all answered in "
            f"{row['filling_s']:.1f} s",
            flush=True,
        )
    if asked.out:
        threads = os.environ.get("OMP_NUM_THREADS")
        machine = {
            "threads": threads,
            "cpu": platform.machine(),
            "numpy": np.__version__,
            "data": asked.data.partition(":")[0],
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
