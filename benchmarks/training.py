"""Throughput of every training method beside plain Gaussian training, in one run with one network.

    python benchmarks/training.py                      # small, on the CPU
    python benchmarks/training.py --device cuda        # ResNet-18 shape, CIFAR-10's image size, bf16

# passes: how often an image goes through the network and back, by one noisy copy or another; Gaussian training: 1.
# With m copies and T steps of attack it is m * (T + P), P passes the method learns from; forward alone counts 1/3.
# A method should have the images/s of Gaussian training over its passes: `reached` is what share of that it has.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from sigmax import models
from sigmax.train import Method, Settings, fit
from sigmax.train.loop.partial import Partial
from sigmax.train.loop.progress import EpochReport
from sigmax.train.methods.base import Examples
from sigmax.train.methods.data_dependent import with_moving_noise
from sigmax.train.methods.registry import make_method

SIGMA = 0.5


def contenders(target: models.Classifier) -> list[tuple[str, Method, float]]:
    """Each method as its paper sets it at sigma 0.5, past its warm-up, and its passes for each image."""
    aside = {"discard": False, "reweight": False}  # the images are random: discarding would leave none
    rows: list[tuple[str, str, dict[str, Any], float]] = [
        ("gaussian", "gaussian", {}, 1),
        ("gaussian, 4 copies", "gaussian", {"copies": 4}, 4),
        ("stability", "stability", {}, 2),
        ("consistency, m=2", "consistency", {}, 2),
        ("macer, k=16", "macer", {"weight": 6.0}, 16),
        ("smoothmix, m=2, T=4", "smoothmix", {"mix_step": 1, "warm_up": 1}, 2 * (4 + 2)),
        ("smoothadv, m=8, T=10", "smoothadv", {"copies": 8, "warm_up": 1}, 8 * (10 + 1)),
        ("cat-rs, m=4, T=4", "cat-rs", {"target": target, "weight": 1.0}, 4 * (4 + 2 + 1 / 3)),  # target: forward alone
        ("easy-samples, m=4, T<=6", "easy-samples", {"discard_epoch": 0, "steps": 6, **aside}, 4 * (6 + 1)),
    ]
    made = [(title, make_method(name, SIGMA, hyper), passes) for title, name, hyper, passes in rows]
    return [*made, ("data-dependent gaussian", with_moving_noise(make_method("gaussian", SIGMA)), 1 + 1)]


def network(device: str, seed: int = 0) -> models.Classifier:
    """The network that all are measured with."""
    shape = (1, 8, 8) if device == "cpu" else (3, 32, 32)
    architecture = "small-cnn" if device == "cpu" else "resnet18"
    torch.manual_seed(seed)
    return models.create(models.Description(architecture=architecture, classes=10, input_shape=shape, sigma=SIGMA))


def throughput(method: Method, examples: Examples, settings: Settings) -> float:
    """Images a second in the last of the epochs; those before are for warming up."""
    reports: list[EpochReport] = []
    with tempfile.TemporaryDirectory() as folder:
        fit(
            network(torch.device(settings.device).type).to(settings.device),
            method,
            examples,
            settings,
            partial=Partial(Path(folder) / "partial", {}),
            metrics=Path(folder) / "metrics.jsonl",
            on_epoch=reports.append,
        )
    return max(report.throughput for report in reports[1:])


def main() -> None:
    """Measure all of them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=None, help="noisy images in a step")
    parser.add_argument("--images", type=int, default=None, help="images in an epoch")
    asked = parser.parse_args()
    gpu = asked.device != "cpu"
    batch = asked.batch or (2048 if gpu else 64)
    how: dict[str, Any] = {"precision": "bf16", "channels_last": True} if gpu else {}
    settings = Settings(epochs=3, batch=batch, lr=0.01, device=asked.device, **how)
    model = network("cuda" if gpu else "cpu", seed=1)
    count = asked.images or (16_384 if gpu else 512)
    pixels = torch.rand(count, *model.description.input_shape)
    examples = Examples(pixels.to(asked.device), torch.randint(10, (count,)).to(asked.device))
    print(f"{model.description.architecture}, batch {batch}, {asked.device}, {settings.precision}")
    print("| method | images/s | of gaussian | passes an image | reached |")
    print("|---|---:|---:|---:|---:|")
    first = 0.0
    for name, method, passes in contenders(model):
        speed = throughput(method, examples, settings)
        first = first or speed
        share = speed / first
        print(f"| {name} | {speed:,.0f} | {share:.4f} | {passes:.3g} | {share * passes:.2f} |", flush=True)


if __name__ == "__main__":
    main()
