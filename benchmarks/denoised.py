"""Denoiser and ViT on one GPU: the field's loop against the engine, each way of running the pair, in one run.

    python benchmarks/denoised.py --device cuda --dtype bf16 --out denoised.json

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
from sigmax.bench import ceiling, field_loop
from sigmax.bench.stages import shares
from sigmax.models.transformers import Resized

SIGMA, N0, ALPHA = 0.5, 100, 0.001


def pair(small: bool, halved: bool = False) -> sx.Denoised:
    """The denoiser and the classifier behind it, this with weights of 16 bits or of 32."""
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
    if halved:
        network = network.to(torch.bfloat16)
    classifier = Resized(network, (224, 224), None, "bicubic")
    return sx.Denoised(models.create_denoiser(described), classifier)


def field(model: nn.Module, x: Tensor, n: int) -> float:
    """Votes a second of the field's loop."""
    field_loop.count_votes(model, x, SIGMA, field_loop.BATCH, 10)
    begun = time.perf_counter()
    field_loop.count_votes(model, x, SIGMA, N0, 10)
    field_loop.count_votes(model, x, SIGMA, n, 10)
    return (N0 + n) / (time.perf_counter() - begun)


def engine(model: nn.Module, x: Tensor, n: int, **how: Any) -> float:
    """Votes a second of whole certifications, after a warm-up."""
    f = sx.Smoothed(model, sigma=SIGMA, classes=10, **how)
    f.certify(x[:1], n0=N0, n=max(n // 4, 100), alpha=ALPHA)
    begun = time.perf_counter()
    found = f.certify(x, n0=N0, n=n, alpha=ALPHA)
    return sum(c.draws for c in found) / (time.perf_counter() - begun)


def main() -> None:
    """Measure, print a line each, and write the figures."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--device", default="cuda")
    cli.add_argument("--dtype", default="bf16", choices=("fp32", "bf16", "fp16"))
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--inputs", type=int, default=4)
    cli.add_argument("--batch", type=int, default=1024)
    cli.add_argument("--small", action="store_true", help="tiny networks, to see that it runs")
    cli.add_argument("--out", type=Path)
    told = cli.parse_args()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[told.dtype]
    x = torch.rand(told.inputs, 3, 32, 32)
    model = pair(told.small).to(told.device).eval()
    how = {"device": told.device, "dtype": dtype, "batch": told.batch}
    voter = sx.Smoothed(model, sigma=SIGMA, classes=10, **how).voters["base"]
    cost = ceiling.operations(voter, x[:1], SIGMA)
    rows: list[dict[str, Any]] = []

    def row(name: str, speed: float, top: float) -> None:
        first = rows[0]["votes_per_s"] if rows else speed
        rows.append({"way": name, "votes_per_s": speed, "ratio": speed / first, "of_ceiling": speed * cost / top})
        print(
            f"{name}: {speed:,.0f} votes/s, {speed / first:.2f}x, {speed * cost / top:.0%} of the ceiling",
            flush=True,
        )

    top32, top = (ceiling.ceiling(voter.device, kind) for kind in (torch.float32, dtype))
    plain = pair(told.small).to(told.device).eval()
    row("field's loop", field(plain, x[0].to(told.device), told.n), top32)
    parts = shares(voter, x, SIGMA)
    print(f"time, not compiled: {', '.join(f'{name} {share:.0%}' for name, share in parts.items())}", flush=True)
    row(f"sigmax, {told.dtype}", engine(model, x, told.n, **how), top)
    row(f"sigmax, {told.dtype}, denoiser compiled", engine(model, x, told.n, **how, compile="denoiser"), top)
    if told.dtype == "bf16":
        model = pair(told.small, halved=True).to(told.device).eval()
        for batch in (told.batch, 2 * told.batch):
            speed = engine(model, x, told.n, **{**how, "batch": batch}, compile="denoiser")
            row(f"the same, weights of the ViT in bf16, batch {batch}", speed, top)
    if told.out:
        machine = torch.cuda.get_device_name() if voter.device.type == "cuda" else "cpu"
        told.out.write_text(json.dumps({"machine": machine, "stages": parts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
