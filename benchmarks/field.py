"""What the noise of a nearest-neighbour field costs: seconds and memory for the test images of a data set.

The rival is torch's plain search: all distances by `torch.cdist`, then the k smallest. It proves no rounding.

OMP_NUM_THREADS=1 python benchmarks/field.py --data cifar10:PATH --out benchmarks/results/field-cifar10.json
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

import sigmax as sx

Floats = npt.NDArray[np.float32]


def plain_search(images: Floats, points: Floats, k: int) -> float:
    """Seconds of the k nearest points of every image, without proof."""
    begun = time.perf_counter()
    x, centres = (torch.from_numpy(a).flatten(1) for a in (images, points))
    torch.cdist(x, centres).topk(k, largest=False)
    return time.perf_counter() - begun


def main(arguments: list[str] | None = None) -> None:
    """Build the field, ask it about every SKIP-th test image, and print what that took."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--data", required=True, help="a source with the splits train (the points) and test (asked about)")
    cli.add_argument("--skip", type=int, default=20, help="take every SKIP-th test image")
    cli.add_argument("--base", type=float, default=0.25)
    cli.add_argument("--rate", type=float, default=0.01)
    cli.add_argument("--k", type=int, default=20)
    cli.add_argument("--offset", type=float, default=5.0)
    cli.add_argument("--out", type=Path)
    options = cli.parse_args(arguments)
    train, test = sx.data.load(options.data, "train"), sx.data.load(options.data, "test")
    begun = time.perf_counter()
    points = train.pixels(range(len(train)))
    field = sx.NearestNeighbourSigma(points, base=options.base, rate=options.rate, k=options.k, offset=options.offset)
    built = time.perf_counter()
    images = test.pixels(range(0, len(test), options.skip))
    sigmas = field.sigmas(images)
    asked = time.perf_counter()
    row = {
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "points": len(points),
        "inputs": len(sigmas),
        "building_s": built - begun,
        "asking_s": asked - built,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "cdist_s": plain_search(images, points, options.k),
        "sigma": {f"{share:g}": float(np.quantile(sigmas, share)) for share in (0, 0.05, 0.5, 0.95, 1)},
    }
    print(
        f"{row['inputs']:,} inputs against {row['points']:,} points: {row['asking_s']:.2f} s (torch.cdist and "
        f"topk: {row['cdist_s']:.2f} s), after {row['building_s']:.2f} s to build the field; "
        f"{row['peak_gb']:.2f} GB at most; sigma {sigmas.min():.4g} to {sigmas.max():.4g}"
    )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
