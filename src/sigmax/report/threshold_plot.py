"""The curse of dimensionality drawn: how little two noise levels may differ before nothing can be certified."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sigmax.radius import ratio_limits, sharp_ratio_limits
from sigmax.report.plot import new_figure, plain, quiet_legend, styles

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DATA = {"MNIST": 784, "CIFAR-10": 3072, "ImageNet": 3 * 256 * 256}  # dimensions of the paper's table
BOUNDS = (0.9, 0.99, 0.999, 0.99993)  # of p_A; the last is about what 100,000 draws can prove


def threshold_table(bounds: Sequence[float] = BOUNDS, data: dict[str, int] = DATA) -> "pd.DataFrame":
    """The least sigma_1 / sigma_0 at which anything can be certified: rows data, columns bounds of p_A.

    Source: Sukenik et al. (2022), Table 1.
    """
    import pandas as pd

    rows = {name: [ratio_limits(bound, dim).least for bound in bounds] for name, dim in data.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(bounds))


def draw_thresholds(
    ax: "Axes | None" = None, *, bounds: Sequence[float] = BOUNDS, dims: tuple[int, int] = (10, 10**6)
) -> "Axes":
    """How far, in %, sigma_1 may be from sigma_0 before nothing can be certified, against the dimension.

    Solid, for less noise, and dashed, for more: Theorem 2.4 of Sukenik et al. (2022). Dotted, for less: where the
    worst case reaches 1/2 at distance 0, which is sharp. All fall as 1 / sqrt(dimension).
    """
    ax = new_figure().add_subplot() if ax is None else ax
    grid = np.unique(np.geomspace(*dims, 80).round().astype(int)).tolist()
    for bound, (_, colour) in zip(bounds, styles(), strict=False):
        wide = np.array([ratio_limits(bound, dim) for dim in grid])
        sharp = np.array([sharp_ratio_limits(bound, dim).least for dim in grid])
        ax.plot(grid, 100 * (1 - wide[:, 0]), color=colour, label=f"$p_A$ = {bound:g}", linewidth=1.6)
        ax.plot(grid, 100 * (wide[:, 1] - 1), color=colour, linestyle="--", linewidth=1.2)
        ax.plot(grid, 100 * (1 - sharp), color=colour, linestyle=":", linewidth=1.2)
    for name, dim in DATA.items():
        ax.axvline(dim, color="0.6", linewidth=0.8, zorder=0)
        ax.annotate(
            name, (dim, 0.02), xycoords=("data", "axes fraction"), rotation=90, fontsize="small", color="0.4"
        )
    ax.set(xscale="log", yscale="log", xlabel="dimension", ylabel=r"greatest change of $\sigma$ (%)")
    plain(ax)
    quiet_legend(ax, "solid: less noise, dashed: more\ndotted: less, sharp")
    return ax
