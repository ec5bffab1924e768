"""Every training method on one data set: certified accuracy of the smoothed classifier, mean and spread over seeds.

    python benchmarks/methods.py --jobs 2              # scikit-learn's digits; about half an hour of one core

The hyper-parameters are those of the papers where they carry over to 8x8 images; attacks are scaled down with the
distances between digits (epsilon 0.5 rather than 1). They were set once, not searched.
"""

import argparse
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIGMA, N, ALPHA, RADII = 0.4, 1_000, 1e-3, (0.0, 0.25, 0.5, 0.75)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # name: method, hyper-parameters, settings
    "gaussian": ("gaussian", {}, {}),
    "gaussian, 4 copies": ("gaussian", {"copies": 4}, {"batch": 256}),
    "stability": ("stability", {}, {"lr": 0.05}),
    "consistency": ("consistency", {"consistency": 5.0}, {}),
    "macer": ("macer", {"weight": 6.0, "plain_epochs": 15}, {"batch": 1024, "lr": 0.02}),
    "smoothmix": ("smoothmix", {"step": 0.5, "mix_step": 1}, {}),
    "smoothadv": ("smoothadv", {"epsilon": 0.5, "steps": 4}, {"batch": 256}),
    "cat-rs": ("cat-rs", {"epsilon": 0.5, "weight": 1.0}, {"batch": 256}),
    "easy-samples": (
        "easy-samples",
        {"discard_epoch": 30, "threshold": 0.4, "steps": 6, "step": 0.25},
        {"batch": 256},
    ),
    "data-dependent gaussian": ("gaussian", {}, {}),
}


class Job(NamedTuple):
    """One network to train and certify."""

    case: str
    seed: int
    data: str
    epochs: int
    images: int


def measured(job: Job) -> list[float]:
    """Certified accuracy at each radius, then the average certified radius."""
    from sigmax import data

    with tempfile.TemporaryDirectory() as folder:
        network = _train(job, Path(folder))
        return _certified(network, data.load(job.data, "test"), job)


def _train(job: Job, folder: Path) -> Path:
    from sigmax import data
    from sigmax.train import Settings, train_classifier
    from sigmax.train.methods.data_dependent import with_moving_noise
    from sigmax.train.methods.registry import make_method

    name, hyper, how = CASES[job.case]
    train = data.load(job.data, "train")
    common: dict[str, Any] = {"architecture": "small-cnn", "sigma": SIGMA}
    if name == "cat-rs":
        settings = Settings(epochs=job.epochs, seed=job.seed)
        target = train_classifier(train, out=folder / "target.safetensors", settings=settings, **common)
        hyper = {**hyper, "target": target}
    moving = job.case.startswith("data-dependent")

    def method(sigma: float) -> Any:
        inner = make_method(name, sigma, hyper)
        return with_moving_noise(inner, {"step": 0.01, "plain_epochs": 15}) if moving else inner

    settings = Settings(epochs=job.epochs, seed=job.seed, **how)
    return train_classifier(train, out=folder / "net.safetensors", settings=settings, method=method, **common)


def _certified(network: Path, test: Any, job: Job) -> list[float]:
    import sigmax as sx
    from sigmax import models

    model, described = models.load(network)
    chosen = list(range(0, len(test), max(1, len(test) // job.images)))[: job.images]
    f = sx.Smoothed(model, sigma=SIGMA, classes=described.classes)
    found = f.certify(test.pixels(chosen), n=N, alpha=ALPHA, seed=job.seed)
    right = np.array([c.predicted == test.labels[i] for i, c in zip(chosen, found, strict=True)])
    radius = np.where(right, [c.radius for c in found], -1.0)
    return [100 * float((radius >= r).mean()) for r in RADII] + [float(np.maximum(radius, 0).mean())]


def main() -> None:
    """Train and certify all of them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--images", type=int, default=180, help="test images to certify")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="networks trained at a time, one core each")
    parser.add_argument("--only", default="", help="names to measure, separated by semicolons")
    asked = parser.parse_args()
    names = [name for name in CASES if not asked.only or name in asked.only.split(";")]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded, in the processes to come
    jobs = [Job(name, seed, asked.data, asked.epochs, asked.images) for seed in range(asked.seeds) for name in names]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        rows = dict(zip(jobs, pool.map(measured, jobs), strict=True))
    print(
        f"sigma {SIGMA}, {asked.epochs} epochs, {asked.images} test images, n={N}, alpha={ALPHA}, {asked.seeds} seeds"
    )
    print("| method | " + " | ".join(f"r = {r:g}" for r in RADII) + " | mean radius |")
    print("|---|" + "---:|" * (len(RADII) + 1))
    for name in names:
        table = np.array([found for job, found in rows.items() if job.case == name])
        cells = [f"{m:.1f} ({low:.1f} to {high:.1f})" for m, low, high in _spread(table[:, :-1])]
        print(f"| {name} | {' | '.join(cells)} | {table[:, -1].mean():.3f} |")


def _spread(table: "np.ndarray[Any, Any]") -> list[tuple[float, float, float]]:
    return list(zip(table.mean(axis=0), table.min(axis=0), table.max(axis=0), strict=True))


if __name__ == "__main__":
    main()
