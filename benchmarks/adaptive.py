"""What adaptive sampling saves and costs: one system, the same images and noise, every question it can be asked.

    python benchmarks/adaptive.py SYSTEM --data digits
    python benchmarks/adaptive.py SYSTEM --data cifar10:PATH --device cuda --dtype bf16 --compile tuned

Fixed sampling is the rival and comes first. For each question: samples as a share of fixed sampling's; for a dual
system also the router's share of its n, and the routers' time as a share of the experts'; seconds; and the most
points of certified accuracy lost at any radius that was asked about. For a single radius `--out` also says where the
samples went: to inputs that were shown to reach it early, to futility stops, and to inputs so near the radius that it
took all n.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sigmax as sx
from sigmax.engine.settings import DTYPES
from sigmax.engine.voter import voting
from sigmax.rules.certificate import Certificate, Role, joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.routed.parts import ROUTER
from sigmax.schemes.scheme import Scheme

RADII = tuple(0.25 * i for i in range(11))


def accuracy(found: list[Certificate], labels: Any, radii: tuple[float, ...] = RADII) -> list[float]:
    """Certified accuracy in % at the radii."""
    return [
        100 * float(np.mean([c.predicted == y and c.radius >= r for c, y in zip(found, labels, strict=True)]))
        for r in radii
    ]


def router_samples(found: list[Certificate]) -> float | None:
    """Estimation samples of the outermost router, an input; None where there is none."""
    if not any(stage.part == ROUTER for stage in found[0].stages):
        return None
    sampled = [sum(s.n for s in c.stages if s.part == ROUTER and s.role is Role.ESTIMATION) for c in found]
    return float(np.mean(sampled))


def vote_times(scheme: Scheme, x: Any) -> dict[str, float]:
    """Seconds a vote of each network, in full batches, as the engine calls it."""
    times = {}
    for name, voter in scheme.voters.items():
        sigma = scheme.sigma_of(name)
        voter.check(torch.as_tensor(x[:1]), sigma)
        batch = torch.as_tensor(x[:1]).to(voter.device).repeat(voter.batch, 1, 1, 1)
        with voting([voter]):
            voter.vote(batch, sigma)  # compiles, where it is asked to
            rounds, begun = 0, time.perf_counter()
            while not rounds or time.perf_counter() - begun < 0.5:
                voter.vote(batch, sigma)[0].cpu()
                rounds += 1
        times[name] = (time.perf_counter() - begun) / (rounds * len(batch))
    return times


def router_overhead(found: list[Certificate], times: dict[str, float]) -> float | None:
    """Time of all routers' votes as a share of the experts'; None where there is no router."""
    spent = {"router": 0.0, "expert": 0.0}
    for stage in (stage for c in found for stage in c.stages if stage.n):
        kind = "router" if stage.part.endswith(ROUTER) else "expert"
        spent[kind] += stage.n * times[joined(stage.part, NETWORK)]
    return spent["router"] / spent["expert"] if spent["router"] else None


def where(found: list[Certificate], n: int, furthest: float) -> dict[str, dict[str, float]]:
    """How inputs ended, with their share of the inputs and of all samples; `furthest`: the radius asked about."""
    ends: dict[str, list[int]] = {"shown early": [], "futility stop": [], "all n sampled": []}
    for c in found:
        full, shown = any(stage.n >= n for stage in c.stages), c.radius > 0 and c.radius >= furthest
        ends["all n sampled" if full else "shown early" if shown else "futility stop"].append(c.samples)
    total = sum(map(sum, ends.values()))
    return {
        name: {"of_inputs": len(samples) / len(found), "of_samples": sum(samples) / total}
        for name, samples in ends.items()
    }


def questions(
    scheme: Scheme, n: int, alpha: float, single: tuple[float, ...]
) -> list[tuple[str, dict[str, Any], tuple[float, ...]]]:
    """Name, keywords and the radii that the answer speaks of; fixed sampling comes first."""
    furthest = scheme.rule.largest_radius(n=n, alpha=alpha)
    asked: list[tuple[str, dict[str, Any], tuple[float, ...]]] = [
        ("fixed", {}, RADII),
        ("the radius", {"sampling": "adaptive"}, RADII),
        ("eleven radii", {"sampling": "adaptive", "targets": RADII}, RADII),
    ]
    for r in single:
        if r <= furthest:
            asked.append((f"radius {r:g}", {"sampling": "adaptive", "targets": (r,)}, (r,)))
    return asked


def measure(
    scheme: Scheme, x: Any, labels: Any, n: int, alpha: float, *, single: tuple[float, ...]
) -> list[dict[str, Any]]:
    """One row a question."""
    rows: list[dict[str, Any]] = []
    fixed: dict[float, float] = {}
    times = vote_times(scheme, x)
    for name, sampling, radii in questions(scheme, n, alpha, single):
        begun = time.perf_counter()
        found = scheme.certify(x, n0=100, n=n, alpha=alpha, **sampling)
        seconds = time.perf_counter() - begun
        shares = accuracy(found, labels, radii)
        fixed = fixed or dict(zip(radii, shares, strict=True))
        samples = float(np.mean([c.samples for c in found]))
        router = router_samples(found)
        rows.append(
            {
                "question": name,
                "samples": samples,
                "of_fixed": samples / rows[0]["samples"] if rows else 1.0,
                "router_of_n": None if router is None else router / n,
                "router_overhead": router_overhead(found, times),
                "seconds": seconds,
                "where": where(found, n, max(radii)) if len(radii) == 1 else None,
                "accuracy": dict(zip(map(str, radii), shares, strict=True)),
                "most_lost": max(fixed[r] - share for r, share in zip(radii, shares, strict=True)),
            }
        )
        print(_line(rows[-1]), flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    router = ""
    if row["router_of_n"] is not None:
        router = f"{row['router_of_n']:8.1%}{row['router_overhead']:8.1%}"
    return (
        f"{row['question']:14}{row['samples']:10,.0f}{row['of_fixed']:9.1%}{router}{row['seconds']:9.1f} s"
        f"{row['most_lost']:8.2f}"
    )


def main() -> None:
    """Certify and print a line a question."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("system")
    cli.add_argument("--data", required=True)
    cli.add_argument("--skip", type=int, default=1, help="take every SKIP-th test image")
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--single", default=",".join(map(str, RADII)), help="radii to ask about one by one")
    cli.add_argument("--alpha", type=float, default=0.001)
    cli.add_argument("--device")
    cli.add_argument("--dtype", default="fp32", choices=DTYPES)
    cli.add_argument("--compile", default="off")
    cli.add_argument("--batch", type=int)
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args()
    how = {"device": asked.device, "dtype": asked.dtype, "compile": asked.compile, "batch": asked.batch}
    scheme = sx.load(asked.system, **how)
    test = sx.data.load(asked.data, "test")
    indices = list(range(0, len(test), asked.skip))
    labels = test.needed_labels("the benchmark")[indices].tolist()
    print(f"{scheme!r}, {len(indices)} inputs, n={asked.n:,}")
    print(f"{'question':14}{'samples':>10}{'of fixed':>9}  (router, overhead), seconds, most points lost")
    single = tuple(float(r) for r in asked.single.split(",") if r)
    rows = measure(scheme, test.pixels(indices), labels, asked.n, asked.alpha, single=single)
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        machine = torch.cuda.get_device_name() if str(asked.device).startswith("cuda") else "cpu"
        figures = {
            "system": repr(scheme),
            "machine": machine,
            "inputs": len(indices),
            "n": asked.n,
            "alpha": asked.alpha,
            "rows": rows,
        }
        asked.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
