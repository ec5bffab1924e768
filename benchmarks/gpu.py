"""Votes a second on a GPU: the field's sampling loop against the sigmax engine, same network and draws, in one run.

    python benchmarks/gpu.py                # ResNet-110 and a ResNet-18 shape on 32x32, n0 = 100, n = 10,000

The rival is written anew after the description every public script follows: one image at a time, batches of 1,000,
32 bits as torch has them by default, a blocking copy to the host, votes counted in Python. Bounds cost it nothing.
"""

import argparse
import math
import time
from typing import Any

import torch
from torch import Tensor, nn

import sigmax as sx
from sigmax import models

SIGMA, N0, N, RIVAL_BATCH, RIVAL_IMAGES = 0.5, 100, 10_000, 1_000, 6
WAYS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"dtype": torch.bfloat16},
    "bf16, compiled": {"dtype": torch.bfloat16, "compile": True},
}


def network(architecture: str) -> models.Classifier:
    """Random weights: the votes mean nothing and cost what they would."""
    torch.manual_seed(0)
    return models.create(models.Description(architecture=architecture, classes=10, input_shape=(3, 32, 32)))


def rival(model: nn.Module, x: Tensor, n: int) -> list[int]:
    """The field's sampling loop for one image."""
    counts = [0] * 10
    with torch.no_grad():
        for _ in range(math.ceil(n / RIVAL_BATCH)):
            this_batch = min(RIVAL_BATCH, n)
            n -= this_batch
            batch = x.repeat((this_batch, 1, 1, 1))
            for vote in model(batch + torch.randn_like(batch) * SIGMA).argmax(1).cpu().numpy():
                counts[vote] += 1
    return counts


def rival_speed(architecture: str, images: Tensor, device: str) -> float:
    """Votes a second of the field's loop, after a warm-up."""
    model = network(architecture).to(device).eval()
    rival(model, images[0].to(device), 2 * RIVAL_BATCH)
    begun = time.perf_counter()
    for x in images[:RIVAL_IMAGES].to(device):
        rival(model, x, N0)
        rival(model, x, N)
    return len(images[:RIVAL_IMAGES]) * (N0 + N) / (time.perf_counter() - begun)


def engine_speed(architecture: str, images: Tensor, device: str, way: dict[str, Any]) -> float:
    """Votes a second of whole certifications, after a warm-up that compiles what is to be compiled."""
    f = sx.Smoothed(network(architecture), sigma=SIGMA, classes=10, device=device, **way)
    f.certify(images[:2], n0=N0, n=N // 2)
    begun = time.perf_counter()
    found = f.certify(images, n0=N0, n=N)
    return sum(certificate.draws for certificate in found) / (time.perf_counter() - begun)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=40)
    told = parser.parse_args()
    images = torch.rand(told.images, 3, 32, 32)
    print("| network | contender | votes/s | ratio |\n|---|---|---:|---:|")
    for architecture in ("resnet110", "resnet18"):
        first = rival_speed(architecture, images, told.device)
        print(f"| {architecture} | the field's loop | {first:,.0f} | 1.00 |", flush=True)
        for name, way in WAYS.items():
            speed = engine_speed(architecture, images, told.device, way)
            print(f"| {architecture} | sigmax, {name} | {speed:,.0f} | {speed / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
