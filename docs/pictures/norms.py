"""Draws docs/pictures/norms.png: one input certified in two norms, and what splitting noise shows of a number.

Run: python docs/pictures/norms.py
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon, Rectangle

import sigmax as sx
from sigmax.engine.splits import split_copies
from sigmax.radius import Split

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.6"
SLOPE, EDGE = (0.45, 1.0), -0.62  # class 1 where 0.45 x + y > -0.62
SPLIT, OFFSETS = Split(12, 24, 3), (0, 3, 6, 9)  # intervals of half the range of a pixel, on 24 steps


def certified() -> dict[str, sx.Certificate]:
    """The input at the origin under Gaussian and under uniform noise: 100,000 samples, alpha 0.001."""

    def network(batch: torch.Tensor) -> torch.Tensor:
        return (batch @ torch.tensor(SLOPE) > EDGE).long()

    noises = {"l2": sx.noise.Gaussian(0.5), "l1": sx.noise.Uniform(1.0)}
    systems = {norm: sx.Smoothed(network, noise=noise, classes=2) for norm, noise in noises.items()}
    return {norm: system.certify(torch.zeros(1, 2), n=100_000)[0] for norm, system in systems.items()}


def draw_balls(ax: Axes, found: dict[str, sx.Certificate]) -> None:
    """The plane with the classifier's edge, both balls, and the square that the l2 ball implies."""
    round_, diamond = found["l2"].radius, found["l1"].radius
    square = found["l2"].implied_linf(2)
    x = np.linspace(-1.1, 1.1, 2)
    ax.fill_between(x, (EDGE - SLOPE[0] * x) / SLOPE[1], -1.1, color="0.92", linewidth=0)
    ax.plot(x, (EDGE - SLOPE[0] * x) / SLOPE[1], color="0.3")
    ax.add_patch(Circle((0, 0), round_, fill=False, color=BLUE, linewidth=2, label=f"l2, {round_:.3f} (Gaussian)"))
    corners = [(diamond, 0), (0, diamond), (-diamond, 0), (0, -diamond)]
    ax.add_patch(Polygon(corners, fill=False, color=ORANGE, linewidth=2, label=f"l1, {diamond:.3f} (uniform)"))
    label = f"l-infinity, {square:.3f} (implied by l2)"
    look = {"fill": False, "color": GREEN, "linewidth": 1.5, "linestyle": "--", "label": label}
    ax.add_patch(Rectangle((-square, -square), 2 * square, 2 * square, **look))
    ax.plot(0, 0, "k.")
    ax.text(-1.0, -0.95, "another class")
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xlabel="change of one pixel", ylabel="change of another")
    ax.set_aspect("equal")
    ax.legend(loc="upper center", fontsize="small", frameon=False)


def draw_splits(ax: Axes) -> None:
    """For four of the offsets: the cuts of the line, and the middle that stands for every value between two of them."""
    for row, look in enumerate(OFFSETS):
        for k in range(SPLIT.grid + 1):
            (seen,) = split_copies(torch.tensor([k]), SPLIT, look, look + 1)[0].tolist()
            ax.plot([k / SPLIT.grid, seen], [row + 0.28, row], color=GREY, linewidth=0.8)
            ax.plot(k / SPLIT.grid, row + 0.28, "|", color="0.3", markersize=7)
            ax.plot(seen, row, "o", color=BLUE, markersize=5)
        first = (look + int(SPLIT.shifts(1)[0])) % SPLIT.offsets
        for cut in np.arange(first - SPLIT.offsets + 0.5, SPLIT.grid + 1, SPLIT.offsets):
            if 0 < cut < SPLIT.grid:
                ax.plot([cut / SPLIT.grid] * 2, [row - 0.2, row + 0.45], color=ORANGE, linewidth=2)
    ax.set(
        xlim=(-0.03, 1.03), ylim=(-0.5, len(OFFSETS) - 0.3), xlabel="a stored pixel (|), and what is seen of it (dot)"
    )
    ax.set_yticks(range(len(OFFSETS)), [f"offset {look}" for look in OFFSETS])
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(left=False)


def draw(path: Path) -> None:
    """Both pictures side by side."""
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_balls(left, certified())
    draw_splits(right)
    figure.savefig(path, dpi=140, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".png"))
