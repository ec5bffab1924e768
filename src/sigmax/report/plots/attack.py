"""How far the certificates of a run are from what an attack found, drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sigmax.errors import RequestError
from sigmax.report.plots.style import COLOURS, GREYS, given_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = np.log(1.15)  # a bar reaches from a ratio to 1.15 times that
BINS = 20


def draw_attack_ratios(ratios: Sequence[float], ax: "Axes | None" = None, *, not_found: int = 0) -> "Axes":
    """A histogram of attack distance over certified radius, an input each; left of 1 a certificate is false.

    The distance bounds the true robustness from above and the radius from below, so the ratio says at most how loose a
    certificate is. `not_found`: inputs for which the search found no point; the label counts them.
    """
    if not ratios:
        raise RequestError("there is nothing to draw: the attack found no point for any input")
    ax = given_or_new(ax)
    # Ratios of tiny radii are huge: evenly spaced in the logarithm, and 1 is the edge of a bin. One huge ratio must not
    # make the others share a bar.
    width = min(max(np.log(max(ratios)), -np.log(min(ratios)), np.log(1.1)) / BINS, WIDEST)
    logs = np.log(ratios)
    edges = np.exp(width * np.arange(np.floor(min(logs.min(), 0.0) / width), np.ceil(logs.max() / width) + 1.5))
    ax.hist(ratios, bins=edges.tolist(), color=COLOURS[0], edgecolor="white", linewidth=0.5)
    ax.axvline(1.0, color=GREYS[0], linewidth=1.2)
    ax.axvline(float(np.median(ratios)), color=COLOURS[1], linestyle="--", linewidth=1.2, label="median")
    ax.set_xscale("log")
    missing = f"; {not_found} without" if not_found else ""
    ax.legend(frameon=False, fontsize="small")
    plain(ax, f"attack distance / certified radius ({len(ratios)} inputs{missing})", "inputs")
    return ax
