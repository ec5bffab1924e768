"""How time and memory grow with the number of inputs, samples, experts and classes: figures and a plot.

    python benchmarks/growth.py --out docs/pictures/growth.png --json benchmarks/results/growth-cpu.json

Each point is a process of its own, so that its peak memory is its own; the time is that of `certify` alone, the
best of three: of one core on a CPU, so that other work does not count, and by the clock on a GPU (--device cuda),
whose own memory is then measured. The rival is Cohen et al.'s reference loop on the router and the expert it picks:
its time for one input, times the number of inputs.
"""

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.bench import reference_loop

DEFAULTS = {"inputs": 16, "n": 2_000, "experts": 2, "classes": 10}
SWEEPS = {
    "inputs": (8, 16, 32, 64, 128),
    "n": (500, 1_000, 2_000, 4_000, 8_000),
    "experts": (2, 3, 4, 6, 8),
    "classes": (10, 30, 100, 300, 1_000),
}


def network(classes: int, seed: int) -> nn.Module:
    """A small CNN with random weights."""
    torch.manual_seed(seed)
    return models.build("small-cnn", classes=classes, input_shape=(1, 8, 8))


def system(experts: int, classes: int, device: str) -> sx.Dual:
    """A router of random weights among experts of their own networks: undecided, so that all of them are asked."""
    sigmas = [0.1 + 0.1 * i for i in range(experts)]
    router = sx.Smoothed(network(experts, 0), sigma=max(sigmas), classes=experts, device=device)
    pool = [sx.Smoothed(network(classes, 1 + i), sigma=s, classes=classes, device=device) for i, s in enumerate(sigmas)]
    return sx.Dual(router, pool)


def point(sizes: dict[str, int], sampling: str, device: str) -> dict[str, float]:
    """Seconds, samples and peak memory in MB of one size."""
    torch.set_num_threads(1)
    scheme = system(sizes["experts"], sizes["classes"], device)
    x = torch.rand(sizes["inputs"], 1, 8, 8, generator=torch.Generator().manual_seed(0))
    scheme.certify(x[:2], n0=32, n=200)
    clock = time.perf_counter if device.startswith("cuda") else time.process_time
    best, samples = float("inf"), 0
    for _ in range(3):
        begun = clock()
        found = scheme.certify(x, n0=32, n=sizes["n"], sampling=sampling)  # type: ignore[arg-type]  # one of the two
        best, samples = min(best, clock() - begun), sum(c.samples for c in found)
    peak = _peak(device)
    there = x[0].to(device)
    begun = clock()
    with torch.inference_mode():
        reference_loop.certify(scheme, there, n0=32, n=sizes["n"])
    reference = (clock() - begun) * len(x)
    return {"seconds": best, "samples": samples, "peak_mb": peak, "reference_s": reference}


def _peak(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(device: str, points: int) -> list[dict[str, Any]]:
    """The first points of every sweep, each in a fresh process."""
    rows = []
    for name, values in SWEEPS.items():
        for sampling in ("fixed", "adaptive"):
            for value in values[:points]:
                sizes = {**DEFAULTS, name: value}
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                    found = process.submit(point, sizes, sampling, device).result()
                rows.append({"sweep": name, "value": value, "sampling": sampling, **found})
                spent = f"{found['seconds']:8.3f} s {found['peak_mb']:6.0f} MB, loop {found['reference_s']:8.3f} s"
                print(f"{name:8} {value:6} {sampling:9} {spent}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """Seconds against each size, on logarithmic axes with a line of slope 1."""
    from sigmax.report.plots.style import new_figure

    figure = new_figure(3.0 * len(SWEEPS), 3.2)
    for i, name in enumerate(SWEEPS):
        axes = figure.add_subplot(1, len(SWEEPS), i + 1)
        for sampling, mark in (("fixed", "o-"), ("adaptive", "s--")):
            part = [row for row in rows if row["sweep"] == name and row["sampling"] == sampling]
            axes.loglog([r["value"] for r in part], [r["seconds"] for r in part], mark, label=sampling)
        first = next(row for row in rows if row["sweep"] == name)
        values = [row["value"] for row in rows if row["sweep"] == name and row["sampling"] == "fixed"]
        linear = [first["seconds"] * value / values[0] for value in values]
        axes.loglog(values, linear, ":", color="0.5", label="linear")
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.set_ylabel("seconds" if i == 0 else "")
    axes.legend()
    figure.savefig(out, dpi=150)


def main() -> None:
    """Measure, then write the figures and the plot."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--device", default="cpu")
    cli.add_argument("--points", type=int, default=5, help="of each sweep; fewer to see that it runs")
    cli.add_argument("--out", type=Path)
    cli.add_argument("--json", type=Path)
    asked = cli.parse_args()
    rows = measure(asked.device, asked.points)
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {"device": asked.device, "defaults": DEFAULTS, "rows": rows}
        asked.json.write_text(json.dumps(figures, indent=1) + "\n")
    if asked.out:
        draw(rows, asked.out)


if __name__ == "__main__":
    main()
