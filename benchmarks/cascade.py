"""What input-dependent noise costs: a cascade beside constant noise with each of its own networks, in one run.

    python benchmarks/cascade.py zoo:cifar10-cascade --data cifar10:PATH --device cuda --dtype bf16 --compile default

Each question is put to the constant classifiers first, then to the cascade: the same images, n, alpha and sampling.
The ratio is the cascade's seconds an image over the mean of the constant ones'. `--out` also keeps certified accuracy
in % at the radii, and the samples that each part of the cascade took.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sigmax as sx
from sigmax.bench.contest import forward_seconds
from sigmax.engine.settings import DTYPES
from sigmax.models.selective import Selective
from sigmax.rules.certificate import Certificate, joined
from sigmax.rules.procedure import NETWORK
from sigmax.schemes.scheme import Scheme

RADII = tuple(0.25 * i for i in range(11))
ALPHA = 0.001
WARM_UP = 8  # images, so that networks are compiled and memory is there before the clock runs


def constant(part: sx.Smoothed, how: dict[str, Any]) -> sx.Smoothed:
    """The part's network at its own noise, never deferring."""
    model = part.voters["base"].model
    model = model.model if isinstance(model, Selective) else model
    return sx.Smoothed(model, sigma=part.sigma, classes=part.classes, **how)


def questions(n: int, single: list[float]) -> dict[str, dict[str, Any]]:
    """What is asked, by name: the keywords of `certify`."""
    targets = {"eleven radii": RADII, **{f"radius {r:g}": (r,) for r in single}}
    asked: dict[str, dict[str, Any]] = {"fixed": {}, "the radius": {"sampling": "adaptive"}}
    asked |= {name: {"sampling": "adaptive", "targets": radii} for name, radii in targets.items()}
    return {name: {"n0": 100, "n": n, "alpha": ALPHA, "seed": 0, **more} for name, more in asked.items()}


def can_answer(scheme: Scheme, asked: dict[str, Any]) -> bool:
    """Whether all samples could show the smallest radius asked about; what cannot is not asked."""
    furthest = scheme.rule.largest_radius(n=asked["n"], alpha=ALPHA)
    return bool(asked.get("targets", RADII)[0] < furthest)


def measure(scheme: Scheme, x: torch.Tensor, labels: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Seconds and samples an image, votes a second, and what was certified."""
    scheme.certify(x[:WARM_UP], **asked)
    begun = time.perf_counter()
    found = scheme.certify(x, **asked)
    seconds = time.perf_counter() - begun
    samples = sum(c.samples for c in found)
    return {
        "seconds": seconds / len(x),
        "samples": samples / len(x),
        "votes_per_s": samples / seconds,
        "of_ceiling": at_best(scheme, x, found) / seconds,
        "by_part": by_part(found),
        "accuracy": accuracy(found, labels),
    }


def at_best(scheme: Scheme, x: torch.Tensor, found: list[Certificate]) -> float:
    """Seconds that the forward passes behind the certificates take when nothing else runs."""
    cost = forward_seconds(scheme, x)
    return sum(stage.n * cost[joined(stage.part, NETWORK)] for c in found for stage in c.stages if stage.n)


def by_part(found: list[Certificate]) -> dict[str, float]:
    """Samples an image, by part and role."""
    counted: Counter[str] = Counter()
    for stage in (stage for c in found for stage in c.stages):
        counted[stage.name] += stage.n
    return {name: n / len(found) for name, n in sorted(counted.items())}


def accuracy(found: list[Certificate], labels: Any) -> list[float]:
    """Certified accuracy in % at the radii."""
    right = np.array([c.predicted == y for c, y in zip(found, labels, strict=True)])
    radii = np.array([c.radius for c in found])
    return [100 * float(np.mean(right & (radii >= r))) for r in RADII]


def arguments() -> argparse.Namespace:
    """What is measured, and how."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("system", help="a cascade of Smoothed classifiers")
    cli.add_argument("--data", required=True)
    cli.add_argument("--inputs", type=int, default=500)
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--single", type=float, nargs="*", default=[0.5, 1.0], help="radii to ask about alone")
    cli.add_argument("--only", nargs="*", help="ask these questions alone, such as fixed 'eleven radii'")
    cli.add_argument("--device")
    cli.add_argument("--dtype", default="fp32", choices=DTYPES)
    cli.add_argument("--compile", default="off")
    cli.add_argument("--out", type=Path)
    return cli.parse_args()


def main() -> None:
    """Measure, print a line each, and write the figures."""
    asked = arguments()
    how = {"device": asked.device, "dtype": asked.dtype, "compile": asked.compile}
    data = sx.data.load(asked.data, "test")
    chosen = np.linspace(0, len(data) - 1, min(asked.inputs, len(data))).astype(int).tolist()
    x, labels = torch.from_numpy(data.pixels(chosen)), data.needed_labels("certified accuracy")[chosen]
    cascade = sx.load(asked.system, **how)
    assert isinstance(cascade, sx.Cascade)
    assert isinstance(cascade.last, sx.Smoothed)
    parts = {f"sigma {part.sigma:g}": constant(part, how) for part in (*cascade.levels, cascade.last)}
    rows: dict[str, Any] = {}
    for name, question in questions(asked.n, asked.single).items():
        if asked.only and name not in asked.only:
            continue
        able = {k: scheme for k, scheme in {**parts, "cascade": cascade}.items() if can_answer(scheme, question)}
        rows[name] = {k: measure(scheme, x, labels, question) for k, scheme in able.items()}
        mean = float(np.mean([row["seconds"] for k, row in rows[name].items() if k != "cascade"]))
        for k, row in rows[name].items():
            print(
                f"{name:>12} {k:>10}: {row['samples']:8,.0f} samples {1000 * row['seconds']:8.2f} ms an image, "
                f"{row['votes_per_s']:9,.0f} votes/s ({row['of_ceiling']:.0%} of forward passes alone), "
                f"{row['seconds'] / mean:.2f} of constant noise",
                flush=True,
            )
    if asked.out:
        asked.out.write_text(json.dumps({"asked": {**vars(asked), "out": None}, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
