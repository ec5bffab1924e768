"""Denoiser and ViT on one GPU: the reference loop against the engine, in each mode of running the pair, in one run.

    python benchmarks/denoised.py --device cuda --dtype bf16 --out denoised.json
    python benchmarks/denoised.py --best --inputs 2  # the loop and the fastest mode alone

A UNet of 52.5M parameters at 32x32 and a ViT-B/16 at 224 with random weights: the votes mean nothing and cost what
they would. Needs the transformers library.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sigmax as sx
from sigmax import models
from sigmax.bench.forward import seconds_per_vote
from sigmax.bench.reference_loop import BATCH, count_votes
from sigmax.bench.time_shares import shares
from sigmax.engine.settings import DTYPES
from sigmax.models.adapters.transformers import Resized

SIGMA, N0, ALPHA = 0.5, 100, 0.001


def pair(small: bool, bfloat16: bool = False) -> sx.Denoised:
    """The denoiser and the classifier, this with weights in bfloat16 or in 32 bits."""
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 128, "multipliers": (1, 2, 2, 2), "blocks": 3, "attention": (16, 8)}
    vit: dict[str, Any] = {"num_labels": 10}
    if small:
        sizes = {"width": 16, "multipliers": (1, 2), "blocks": 1, "attention": (16,), "head_channels": 16}
        vit |= {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    described = models.Description(architecture="unet", classes=0, input_shape=(3, 32, 32), options=sizes)
    config = transformers.ViTConfig(**vit)
    network: nn.Module = transformers.ViTForImageClassification(config)
    if bfloat16:
        network = network.to(torch.bfloat16)
    classifier = Resized(network, (224, 224), None, "bicubic")
    return sx.Denoised(models.create_denoiser(described), classifier)


def reference(model: nn.Module, x: Tensor, n: int) -> float:
    """Votes a second of the reference loop."""
    count_votes(model, x, SIGMA, BATCH, 10)
    begun = time.perf_counter()
    count_votes(model, x, SIGMA, N0, 10)
    count_votes(model, x, SIGMA, n, 10)
    return (N0 + n) / (time.perf_counter() - begun)


def engine(model: nn.Module, x: Tensor, n: int, **how: Any) -> tuple[float, float]:
    """Votes a second of whole certifications, after a warm-up, and of nothing but forward passes."""
    f = sx.Smoothed(model, sigma=SIGMA, classes=10, **how)
    f.certify(x[:1], n0=N0, n=max(n // 4, 100), alpha=ALPHA)
    begun = time.perf_counter()
    found = f.certify(x, n0=N0, n=n, alpha=ALPHA)
    seconds = time.perf_counter() - begun
    return sum(c.samples for c in found) / seconds, 1 / seconds_per_vote(f.voters["base"], x, SIGMA)


def main() -> None:
    """Measure, print a line each, and write the figures."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--device", default="cuda")
    cli.add_argument("--dtype", default="bf16", choices=DTYPES)
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--inputs", type=int, default=4)
    cli.add_argument("--batch", type=int, default=1024)
    cli.add_argument("--best", action="store_true", help="only the fastest mode: the ViT's weights in bf16")
    cli.add_argument("--small", action="store_true", help="tiny networks, to see that it runs")
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args()
    dtype = DTYPES[asked.dtype]
    x = torch.rand(asked.inputs, 3, 32, 32)
    model = pair(asked.small).to(asked.device).eval()
    how = {"device": asked.device, "dtype": dtype, "batch": asked.batch}
    voter = sx.Smoothed(model, sigma=SIGMA, classes=10, **how).voters["base"]
    rows: list[dict[str, Any]] = []

    def row(name: str, speed: float, top: float | None = None) -> None:
        first = rows[0]["votes_per_s"] if rows else speed
        share = speed / top if top else None
        rows.append({"mode": name, "votes_per_s": speed, "ratio": speed / first, "of_ceiling": share})
        of = f", {share:.0%} of its forward passes alone" if share else ""
        print(f"{name}: {speed:,.0f} votes/s, {speed / first:.2f}x{of}", flush=True)

    plain = pair(asked.small).to(asked.device).eval()
    row("reference loop", reference(plain, x[0].to(asked.device), asked.n))
    parts = shares(voter, x, SIGMA)
    print(f"time, not compiled: {', '.join(f'{name} {share:.0%}' for name, share in parts.items())}", flush=True)
    if not asked.best:
        row(f"sigmax, {asked.dtype}", *engine(model, x, asked.n, **how))
        row(f"sigmax, {asked.dtype}, denoiser compiled", *engine(model, x, asked.n, **how, compile="denoiser"))
    if asked.dtype == "bf16":
        model = pair(asked.small, bfloat16=True).to(asked.device).eval()
        for batch in (asked.batch,) if asked.best else (asked.batch, 2 * asked.batch):
            speeds = engine(model, x, asked.n, **{**how, "batch": batch}, compile="denoiser")
            row(f"the same, weights of the ViT in bf16, batch {batch}", *speeds)
    if asked.out:
        machine = torch.cuda.get_device_name() if voter.device.type == "cuda" else "cpu"
        asked.out.write_text(json.dumps({"machine": machine, "time_shares": parts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
