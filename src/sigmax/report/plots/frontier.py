"""The frontier of one set of networks, drawn: what calibration trades."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sigmax.errors import RequestError
from sigmax.report.plots.style import COLOURS, GREYS, given_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_frontier(frontier: str | Path | Mapping[str, Any], ax: "Axes | None" = None) -> "Axes":
    """Estimated certified accuracy at the smallest radius against the largest, a dot for each calibration.

    `frontier`: what `sigmax calibrate --frontier FILE.json` wrote, or its path. Small dots: a coarse grid of
    thresholds. Grey: each network alone, as constant noise. All are estimates on held-out images, not certificates.
    """
    found = _read(Path(frontier)) if isinstance(frontier, str | Path) else frontier
    ax = given_or_new(ax)
    ends = [list(found["radii"]).index(radius) for radius in found["between"]]
    if found["others"]:
        ax.plot(*zip(*found["others"], strict=True), ".", color=COLOURS[5], markersize=4, label="other thresholds")
    x, y = ([point["accuracy"][end] for point in found["points"]] for end in ends)
    ax.plot(x, y, "o-", color=COLOURS[0], markersize=5, linewidth=1.5, label="frontier of the cascade")
    for name, accuracy in found["alone"].items():
        x, y = (accuracy[end] for end in ends)
        ax.plot(x, y, "s", color=GREYS[0], markersize=4)
        ax.annotate(f"constant {name}", (x, y), xytext=(4, 4), textcoords="offset points", fontsize="small")
    ax.plot([], [], "s", color=GREYS[0], markersize=4, label="one network alone")
    first, far = found["between"]
    ax.margins(x=0.12, y=0.12)
    ax.legend(frameon=False, fontsize="small")
    plain(ax, f"estimated certified accuracy at radius {first:g} (%)", f"at radius {far:g} (%)")
    return ax


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
    except OSError as error:
        raise RequestError(f"the frontier {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path} is no frontier ({error}); write one with sigmax calibrate --frontier") from error
    if not isinstance(found, dict) or not {"radii", "between", "points", "alone", "others"} <= found.keys():
        raise RequestError(f"{path} is no frontier; write one with sigmax calibrate --frontier")
    return found
