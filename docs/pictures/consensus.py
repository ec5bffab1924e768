"""Draws docs/pictures/consensus.png: one input, certified by both rules. Run: python docs/pictures/consensus.py"""

import warnings
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import sigmax as sx

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
ROUTE, FIRST, SECOND = (1.0, 0.0, -0.35), (0.3, -1.0, 1.0), (-0.5, -1.0, 1.25)  # a*x + b*y + c = 0


def halfplane(a: float, b: float, c: float):
    """A two-class network: class 1 where a*x + b*y + c > 0."""
    w = torch.tensor([a, b])
    return lambda batch: (batch @ w + c > 0).long()


def certified() -> dict[str, sx.Certificate]:
    """The input at the origin, by both rules: 100,000 samples, alpha 0.001."""
    router = sx.Smoothed(halfplane(*ROUTE), sigma=1.0, classes=2)
    experts = [
        sx.Smoothed(halfplane(*FIRST), sigma=0.5, classes=2),
        sx.Smoothed(halfplane(*SECOND), sigma=1.0, classes=2),
    ]
    found = {}
    for rule in ("min", "consensus"):
        dual = sx.Dual(router, experts, rule=rule)
        (found[rule],) = dual.certify(torch.zeros(1, 2), n=100_000)
    return found


def draw(path: Path) -> None:
    """The plane, its two routes, the experts' boundaries and the certified balls."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    ax = figure.add_subplot()
    t = np.linspace(-2.2, 2.2, 2)
    border = -ROUTE[2] / ROUTE[0]
    ax.axvspan(-2.2, border, color=BLUE, alpha=0.10, lw=0)
    ax.axvspan(border, 2.2, color=ORANGE, alpha=0.10, lw=0)
    for (a, b, c), colour, inside in ((FIRST, BLUE, t <= border), (SECOND, ORANGE, t >= border)):
        x = np.array([-2.2, border, 2.2])
        y = -(a * x + c) / b
        mine = slice(0, 2) if inside[0] else slice(1, 3)
        ax.plot(x, y, color=colour, lw=1, ls=":")
        ax.plot(x[mine], y[mine], color=colour, lw=2.2)
    found = certified()
    for (rule, certificate), colour, style in zip(found.items(), ("0.35", GREEN), ("--", "-"), strict=True):
        ax.add_patch(Circle((0, 0), certificate.radius, fill=False, color=colour, lw=2, ls=style))
        x, y = 0.72 * certificate.radius, -0.72 * certificate.radius
        ax.annotate(
            f"{rule}: {certificate.radius:.2f}", (x, y), xytext=(14, -14), textcoords="offset points", color=colour
        )
    ax.plot(0, 0, "ko", ms=5)
    ax.text(-2.1, -1.02, "route 1: the first expert is in charge", color=BLUE)
    ax.text(border + 0.08, -1.02, "route 2: the second", color=ORANGE)
    ax.text(-2.1, 1.22, "class 0", color="0.3")
    ax.text(-2.1, -0.55, "class 1", color="0.3")
    ax.set(xlim=(-2.2, 2.2), ylim=(-1.15, 1.4), aspect="equal", xticks=[], yticks=[])
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    warnings.simplefilter("error")
    draw(Path(__file__).with_name("consensus.png"))
