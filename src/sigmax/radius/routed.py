"""The radius of a routed classifier: a router picks the expert in charge, the expert gives the class."""

# D_j reach: distance within which route j cannot win (0: it may win at once); R_j the radius expert j certifies;
# S(r) = {j : D_j <= r} the routes that can be taken within r

from collections.abc import Sequence

import numpy as np

from sigmax.errors import RequestError
from sigmax.radius._checks import distances


def routed(reach: Sequence[float], radii: Sequence[float], labels: Sequence[int | None]) -> float:
    """Radius within which the class does not change, whichever expert is in charge there.

    R = sup {r : all experts in S(r) certify the same class, each with R_j >= r}, or 0. An expert that certifies
    nothing, or was not asked, has the label None: the radius then ends at its reach at the latest.

    Needs: no route j wins at a distance below reach[j], and some route has reach 0; expert j is constant, of class
    labels[j], within radii[j]. If these hold together with probability 1 - alpha, so does the radius.
    Why: at distance r < R the route taken is some j in S(r), and that expert is still of the common class there.
    With one route in reach it is min(reach of the next, its own radius): Sun et al. (2026), Theorem 4.2.
    """
    nearness, certified = distances(reach, "reach"), distances(radii, "radii")
    if not len(nearness) == len(certified) == len(labels) >= 1:
        raise RequestError(
            f"expected one reach, radius and label for each route, got {len(nearness)}, {len(certified)} and "
            f"{len(labels)}; give an expert that was not asked the radius 0.0 and the label None"
        )
    nearest = int(np.argmin(nearness))
    if nearness[nearest] != 0:
        raise RequestError(f"expected a route of reach 0, got {list(reach)}; the top route can win at once")
    agrees = np.array([label is not None and label == labels[nearest] for label in labels])
    return float(np.min(np.where(agrees, np.maximum(nearness, certified), nearness)))
