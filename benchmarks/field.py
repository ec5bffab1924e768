"""What the noise of a nearest-neighbour field costs: seconds and memory for the test images of a data set.

OMP_NUM_THREADS=1 python benchmarks/field.py --data cifar10:PATH --out benchmarks/results/field-cifar10.json
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np

import sigmax as sx


def main(arguments: list[str] | None = None) -> None:
    """Make the field, ask it about every SKIP-th test image, and print what that took."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument(
        "--data", required=True, help="a source with the splits train (the points) and test (asked about)"
    )
    cli.add_argument("--skip", type=int, default=20, help="take every SKIP-th test image")
    cli.add_argument("--base", type=float, default=0.25)
    cli.add_argument("--rate", type=float, default=0.01)
    cli.add_argument("--k", type=int, default=20)
    cli.add_argument("--offset", type=float, default=5.0)
    cli.add_argument("--out", type=Path)
    told = cli.parse_args(arguments)
    train, test = sx.data.load(told.data, "train"), sx.data.load(told.data, "test")
    begun = time.perf_counter()
    points = train.pixels(range(len(train)))
    field = sx.NearestNeighbourSigma(points, base=told.base, rate=told.rate, k=told.k, offset=told.offset)
    made = time.perf_counter()
    sigmas = field.sigmas(test.pixels(range(0, len(test), told.skip)))
    row = {
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "points": len(points),
        "inputs": len(sigmas),
        "making_s": made - begun,
        "asking_s": time.perf_counter() - made,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "sigma": {f"{share:g}": float(np.quantile(sigmas, share)) for share in (0, 0.05, 0.5, 0.95, 1)},
    }
    print(
        f"{row['inputs']:,} inputs against {row['points']:,} points: {row['asking_s']:.1f} s, after "
        f"{row['making_s']:.1f} s to make the field; {row['peak_gb']:.2f} GB at most; sigma "
        f"{sigmas.min():.4g} to {sigmas.max():.4g}"
    )
    if told.out:
        told.out.parent.mkdir(parents=True, exist_ok=True)
        told.out.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
