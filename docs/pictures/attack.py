"""docs/pictures/attack.png: how far beyond their radii the certificates of zoo:cifar10-cascade were broken.

The distances are those of `results/cifar10-attack`; nothing is attacked here.
"""

import gzip
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sigmax as sx
from sigmax import report
from sigmax.records.rounding import down
from sigmax.report.plots.style import new_figure, picture, whole_figure

FOLDER = Path(__file__).parents[2] / "results" / "cifar10-attack"


def attacked() -> NDArray[np.float64]:
    """Certified radius and attack distance of every input that was attacked, (inputs, 2)."""
    with gzip.open(FOLDER / "attack.log.gz") as log:
        _, *lines = map(json.loads, log)
    assert not any(line["violation"] for line in lines)
    return np.array([(line["radius"], line["nearest"]) for line in lines])  # a point was found for each


def sentences() -> list[str]:
    """What docs/attack.md says of them, digits rounded down."""
    radius, distance = attacked().T
    found, run = distance / radius, sx.read(FOLDER / "run.jsonl.gz")
    certified = int((run.frame().predicted >= 0).sum())
    least, median, most = found.min(), np.median(found), found.max()
    return [
        f"{certified} of the {len(run.records)} inputs are certified",
        f"kept for {len(found)} of the {certified}",
        f"{down(least, 3)} at the least, {down(median, 3)} in the median and {int(most):,} at the most",
        f"below 1.5 for {int(100 * (found < 1.5).mean())}% of them and below 2 for {int(100 * (found < 2).mean())}%",
    ]


if __name__ == "__main__":
    left, right = new_figure(9.0, 3.2).subplots(1, 2)
    radius, distance = attacked().T
    report.draw_attack_ratios(list(distance / radius), left)
    right.plot(radius, distance, ".", ms=4, alpha=0.6)
    right.axline((0, 0), slope=1, color="0.4", linewidth=1.2)
    right.set(xlabel="certified radius", ylabel="attack distance", xlim=0, ylim=0)
    Path(__file__).with_suffix(".png").write_bytes(picture(whole_figure(left), "png", dots=110))
    print(*sentences(), sep="\n")
