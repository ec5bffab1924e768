"""What a prediction takes on a CPU: processor time of a vote, and of what comes before the first.

    OMP_NUM_THREADS=1 python benchmarks/pictures.py
    OMP_NUM_THREADS=1 python benchmarks/pictures.py --system SYSTEM --data folder:PATH

Without a system EfficientNet-Lite0 with random weights looks at a random picture of 224x224 pixels, under one noise. A
system may ask several networks, so that its figures are of a vote of any of them, and of how many a picture took.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

import sigmax as sx
from sigmax import models, systems
from sigmax.engine.settings import dtype_of


def picture(asked: argparse.Namespace, shape: tuple[int, int, int]) -> torch.Tensor:
    """The first image of the data, or a random one."""
    if asked.data is None:
        return torch.from_numpy(np.random.default_rng(0).random((1, *shape), dtype=np.float32))
    return torch.from_numpy(sx.data.load(asked.data, asked.split, fit=shape).pixels([0]))


def scheme(asked: argparse.Namespace, dtype: str) -> sx.schemes.scheme.Scheme:
    """The system, or a network with random weights under one noise."""
    if asked.system is not None:
        return sx.load(asked.system, dtype=dtype)
    side = asked.side
    described = models.Description(architecture="efficientnet-lite0", classes=10, input_shape=(3, side, side))
    return sx.Smoothed(models.create(described), sigma=0.5, classes=10, dtype=dtype_of(dtype))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each precision."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--system")
    cli.add_argument("--data", help="a source whose first image is predicted")
    cli.add_argument("--split", default="test")
    cli.add_argument("--side", type=int, default=224, help="of the random picture")
    cli.add_argument("--n", type=int, default=256, help="votes of each network that is asked")
    asked = cli.parse_args(arguments)
    print("| precision | start, s | votes | ms a vote |\n|---|---:|---:|---:|")
    for dtype in ("fp32", "bf16"):
        system = scheme(asked, dtype)
        x = picture(asked, systems.input_shape(system))
        began = time.process_time()
        system.predict(x, n=40, seed=0)  # the trial of every network comes before its first vote
        begun = time.process_time()
        (found,) = system.predict(x, n=asked.n, seed=0)
        spent = time.process_time() - begun
        print(f"| {dtype} | {begun - began:.1f} | {found.samples:,} | {1000 * spent / found.samples:.1f} |", flush=True)


if __name__ == "__main__":
    main()
