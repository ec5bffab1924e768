"""Draws docs/pictures/cifar10.png and prints the tables of the CIFAR-10 system, all from results/cifar10.

Run: python docs/pictures/cifar10.py
"""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sigmax as sx
from sigmax import report
from sigmax.records.rounding import share_down
from sigmax.report.runs import on_shared_inputs

BLUE, ORANGE, SKY, GREY = "#0072B2", "#D55E00", "#56B4E9", "0.45"
RADII = [0.25 * step for step in range(11)]
PUBLISHED = {  # Sun et al. (2026), Table 2: n = 10,000, alpha = 0.001, the whole test set
    "Dual RS, fine-tuned (published)": [70.53, 57.48, 45.27, 34.15, 24.68, 17.84, 12.46, 8.83, 6.65, 4.73, 3.14],
    "Multiscale, fine-tuned (published)": [76.51, 54.78, 39.15, 28.46, 21.33, 15.95, 11.40, 7.91, 5.31, 3.63, 2.34],
}
NOISES = ("0.33", "0.52", "0.86")
SEEDS = ("", "-seed-1", "-seed-2")  # of the training; the first is the system of the zoo
RESULTS = Path(__file__).parents[2] / "results" / "cifar10"


def main() -> None:
    """Print the tables and draw the curve."""
    print("\n".join([*tables(), "", *seeds()]))
    experts = {noise: _share(sx.read(RESULTS / f"constant-{noise}.jsonl.gz")) for noise in NOISES}
    _draw(_share(sx.read(RESULTS / "cascade.jsonl.gz")), experts)


def tables() -> list[str]:
    """The system beside what was published, and beside its own experts, as lines of markdown."""
    final = sx.read(RESULTS / "cascade.jsonl.gz")
    experts = [sx.read(RESULTS / f"constant-{noise}.jsonl.gz") for noise in NOISES]
    lines = [
        _head("CIFAR-10, certified accuracy in % at l2 radius"),
        _row(f"sigmax cascade, {len(final.records):,} images", _percent(_share(final))),
    ]
    lines += [_row(name, _percent(row)) for name, row in PUBLISHED.items()]
    leads = _share(final) - PUBLISHED["Dual RS, fine-tuned (published)"]
    lines += [_row("lead over Dual RS", (f"{points:+.2f}" for points in leads)), ""]

    shared = on_shared_inputs([final, *experts])
    names = ["cascade", *(f"constant {noise}" for noise in NOISES)]
    lines += [_head(f"{len(shared[0].records):,} images that all runs share")]
    lines += [_row(name, _percent(_share(run))) for name, run in zip(names, shared, strict=True)]
    best = report.best_over_sigma(shared[1:], RADII, strict=True)["accuracy"].to_numpy()
    ratio = _share(shared[0]) / (100 * best)
    lines += [_row("cascade / envelope of the constant ones", (share_down(share, 3) for share in ratio)), ""]
    samples = np.mean([record.certificate.samples for record in final.records])
    return [*lines, f"mean of the ratios {share_down(ratio.mean(), 3)}; {samples:,.0f} samples an image"]


def seeds() -> list[str]:
    """Networks of three seeds, each trained and calibrated by itself, on the images that all three runs share."""
    runs = on_shared_inputs([sx.read(RESULTS / f"cascade{seed}.jsonl.gz") for seed in SEEDS])
    shares = np.array([_share(run) for run in runs])
    lines = [_head(f"{len(runs[0].records):,} images")]
    lines += [_row(f"seed {seed}", _percent(row)) for seed, row in enumerate(shares)]
    mean = np.floor(100 * shares.mean(axis=0) + 1e-6) / 100  # down; thirds of 0.05 are far above rounding
    lines += [_row("mean", _percent(mean))]
    return [*lines, _row("standard deviation", (f"{share:.2f}" for share in shares.std(axis=0, ddof=1)))]


def _share(run: sx.Run) -> NDArray[np.float64]:
    return 100 * report.certified_accuracy(run, RADII, strict=True).to_numpy()  # as the published rows count


def _head(first: str) -> str:
    return f"| {first} | {' | '.join(f'{radius:g}' for radius in RADII)} |\n|---|{'---:|' * len(RADII)}"


def _percent(row: Iterable[float]) -> list[str]:
    return [f"{share:.2f}" for share in row]  # no rounding: of 2,000 and of 10,000 images these are all digits


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _draw(found: NDArray[np.float64], experts: Mapping[str, NDArray[np.float64]]) -> None:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for (noise, row), style in zip(experts.items(), (":", "--", "-."), strict=True):
        reached = row > 0  # beyond, n samples can prove nothing at this noise
        ax.plot(np.asarray(RADII)[reached], row[reached], style, color=GREY, lw=1.2, label=f"constant {noise}")
    for (name, row), colour in zip(PUBLISHED.items(), (ORANGE, SKY), strict=True):
        ax.plot(RADII, row, "s-", color=colour, ms=4, lw=1.5, label=name)
    ax.plot(RADII, found, "o-", color=BLUE, ms=5, lw=2.2, label="sigmax, zoo:cifar10-cascade")
    ax.set(
        xlabel=r"$\ell_2$ radius (pixels in [0, 1])",
        ylabel="certified accuracy (%)",
        ylim=(0, 80),
        xlim=(-0.03, 2.55),
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9")
    ax.legend(frameon=False)
    figure.savefig(Path(__file__).with_name("cifar10.png"), dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
