"""Why the average certified radius is a poor metric: the paper's toy example, run. Some seconds on a CPU.

python examples/poor_metric.py

A balanced two-class problem, noise 1, alpha 0.001. One classifier always answers the same class: p_A is 1 on half of
the inputs and 0 on the others. The other has p_A = 0.9 everywhere. By their average radius (ACR) the first is
better with 50 samples, the second with 100, the first again with 400. (With 200 already if every count is 0.9 n,
as in the paper; counts vary, which on average favours the second a little.) By the distribution of
p_A neither is better.
Source: Sun et al. (2025), "Average certified radius is a poor metric for randomized smoothing", Sec. 4.1 and 4.2.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import binom, norm

import sigmax as sx
from sigmax.planning import radius_of
from sigmax.report.plots.style import COLOURS, new_figure, plain, quiet_legend

SIGMA, ALPHA, EVEN = 1.0, 0.001, 0.9
SAMPLES, INPUTS = (50, 100, 200, 400), 400
SPREAD = 4.0  # pixels lie in [0, 1], so the line is drawn at a quarter of its scale
OUT = Path("work/poor-metric")


def data() -> sx.data.Dataset:
    """Points on a line, half of them left of 0 and half right of it, so far that p_A = 0.9 for `sides`."""
    labels = np.arange(INPUTS) % 2
    where = 0.5 + float(norm.ppf(EVEN)) * SIGMA * (2 * labels - 1) / SPREAD
    pixels = where.astype(np.float32).reshape(-1, 1, 1, 1)
    return sx.data.Dataset("two sides", "test", pixels, labels, ("left", "right"))


class Constant(torch.nn.Module):
    """Always the right side."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The class of every point."""
        return torch.ones(len(batch), dtype=torch.long)


class Sides(torch.nn.Module):
    """The side a point is on."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The class of every point."""
        return (batch.flatten(1)[:, 0] > 0.5).long()


def certified(n: int) -> dict[str, sx.Run]:
    """Both classifiers, certified with n samples."""
    return {
        name: sx.certify_run(
            sx.Smoothed(model, sigma=SIGMA / SPREAD, classes=2), data(), OUT / f"{name}-{n}.jsonl", n=n, alpha=ALPHA
        )
        for name, model in (("constant", Constant()), ("sides", Sides()))
    }


def averages(samples: list[int]) -> pd.DataFrame:
    """ACR of both for each number of samples: the paper's figure (the count 0.9 n) and the exact expectation."""
    rows = []
    for n in samples:
        k = np.arange(n + 1)
        radii = radius_of(k, sigma=SIGMA, n=n, alpha=ALPHA)
        expected = float(binom.pmf(k, n, EVEN) @ radii)
        rows.append((n, radii[n] / 2, float(radii[round(EVEN * n)]), expected))
    return pd.DataFrame(rows, columns=["n", "constant", "sides (paper)", "sides (expected)"])


def order_figure() -> list[Path]:
    """Which one ACR prefers, against the number of samples: the order changes twice."""
    frame = averages(list(range(20, 401, 10)))
    ax = sx.report.axes(columns=1)
    for name, colour, dash in (("sides (expected)", COLOURS[0], "-"), ("sides (paper)", COLOURS[1], ":")):
        lead = frame[name] - frame["constant"]
        ax.plot(frame["n"], lead, color=colour, linestyle=dash, linewidth=1.5, label=name)
    ax.axhline(0, color="black", linestyle="--", linewidth=1)
    plain(ax, "samples $n$", "ACR of sides less that of constant")
    quiet_legend(ax, r"$\sigma = 1$, $\alpha = 0.001$")
    return sx.report.save(ax, OUT / "order")


def sensitivity_figure() -> list[Path]:
    """What a little p_A is worth: radius and slope, with 100,000 samples (the paper's figure 2)."""
    n = 100_000
    k = np.unique(np.concatenate([np.arange(0, n, 200), n - np.unique(np.geomspace(1, n / 10, 100).astype(int)), [n]]))
    figure = new_figure(6.9, 2.6)
    left, right = figure.subplots(1, 2)
    left.plot(k / n, radius_of(k, sigma=SIGMA, n=n, alpha=ALPHA), color=COLOURS[0])
    p = k[(k > n / 2) & (k < n)] / n
    right.semilogy(p, sx.report.sensitivity(p), color=COLOURS[1])
    plain(left, "$p_A$", "certified radius $r$")
    plain(right, "$p_A$", r"$\partial r / \partial p_A$")
    return sx.report.save(left, OUT / "sensitivity")


def main() -> None:
    """The changes of order, certified and computed; what p_A says instead; what a little more of it is worth."""
    frame = averages(list(SAMPLES)).set_index("n")
    runs = {n: certified(n) for n in SAMPLES}
    for name in ("constant", "sides"):
        # Radii scale with the noise: times SPREAD they are those of noise 1.
        frame[f"{name} (certified)"] = [SPREAD * sx.report.acr(runs[n][name]) for n in SAMPLES]
    print(frame.round(3).to_string(), "\n")
    print(*sx.report.dominance(runs[SAMPLES[-1]].values()), "\n")
    gain = radius_of([99_000, 99_900, 76_000], sigma=SIGMA, n=100_000, alpha=ALPHA)
    low, high = sx.report.sensitivity([0.6, 0.9999])
    print(f"p_A from 0.99 to 0.999 adds {gain[1] - gain[0]:.2f} to a radius, from 0 to 0.76 {gain[2]:.2f};")
    print(f"dr/dp_A is {low:.1f} at 0.6 and {high:,.0f} at 0.9999")
    distributions = sx.report.draw_ecdf(runs[SAMPLES[-1]].values(), sx.report.axes())
    print("Wrote", *order_figure(), *sensitivity_figure(), *sx.report.save(distributions, OUT / "distributions"))


if __name__ == "__main__":
    main()
