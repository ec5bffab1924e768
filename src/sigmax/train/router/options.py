"""Which loss a router is trained with, and the options of each."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.train.loop.noisy import NoiseName
from sigmax.train.methods.base import Method
from sigmax.train.router.loss import Router, shares_of
from sigmax.train.router.objective import Certified, Weighted

OBJECTIVES: Mapping[str, type[Method]] = MappingProxyType(
    {"paper": Router, "certified": Certified, "weighted": Weighted}
)
DECIDED = frozenset({"sigma", "noise", "shares", "scale"})  # by the router's noise and labels, not by its options
OPTIONAL = frozenset({"radii"})  # filled in where it is not among the options
RADII = 12  # at which a router's certificates count, where none are named


def make_loss(
    sigma: float, radii: NDArray[np.floating], given: Mapping[str, Any], *, noise: NoiseName = "gaussian"
) -> Method:
    """The loss that the options describe, for inputs of these radii, (n, K), to train on.

    Where no radii are named, those at which certificates count are spread from 0 to below the largest label.
    """
    options = dict(given)
    objective = options.pop("objective", "paper")
    if objective not in OBJECTIVES:
        raise RequestError(f"objective: expected one of {', '.join(OBJECTIVES)}, got {objective!r}")
    _refuse_foreign(objective, options)
    options["noise"] = noise
    scale = float(radii.max())
    if objective == "paper":
        return Router(sigma=sigma, shares=shares_of(radii), scale=scale, **options)
    options["radii"] = options.get("radii") or tuple((scale * np.arange(RADII) / RADII).tolist())
    kind = Certified if objective == "certified" else Weighted
    return kind(sigma=sigma, **options)


def check_loss(sigma: float, given: Mapping[str, Any]) -> None:
    """Raise for all that is wrong with the options whatever the labels are."""
    make_loss(sigma, np.array([[0.0, 1.0], [1.0, 0.0]]), given)


def advice_on_collapse(sigma: float, given: Mapping[str, Any]) -> str:
    """What to change when a router that these options describe takes one route for nearly all inputs."""
    return advice(make_loss(sigma, np.array([[0.0, 1.0], [1.0, 0.0]]), given), collapsed=True)


def refuse_preset(preset: str | None, objective: str) -> None:
    """Raise where a preset, which is the paper's loss, stands beside another objective."""
    if preset is not None and objective != "paper":
        raise RequestError(
            f"the preset {preset!r} sets the paper's loss, and {objective!r} was asked for; leave one of them out"
        )


def advice(method: Method, *, collapsed: bool = False) -> str:
    """What to change when a route dies, best first: soft labels of close radii say next to nothing.

    `collapsed`: when one route takes nearly all; balancing can do that too, since rare routes then weigh the most.
    """
    changes = []
    if isinstance(method, Router):
        if method.labels_kind == "soft":
            now = method.sharpness
            changes.append(f"sharper labels (sharpness {3 * now:g} to {6 * now:g}, now {now:g})")
        if not method.balance:
            changes.append("balance on")
        elif collapsed:
            changes.append("no balancing (balance=false)")
    if isinstance(method, Certified):
        changes.append(f"more fit (now {method.fit:g})")
    if isinstance(method, Weighted):
        changes.append("more weight on the radii that the route's expert is best at")
    consistency = getattr(method, "consistency", 0.0)
    if consistency > 0:
        changes.append(f"less consistency (now {consistency:g})")
    return f"Try {', or '.join(changes)}." if changes else "Label more inputs, or leave its expert out."


def _refuse_foreign(objective: str, options: Mapping[str, Any]) -> None:
    """Refuse options of another objective: they would be silently without effect."""
    own = {f.name for f in fields(OBJECTIVES[objective])} - DECIDED  # type: ignore[arg-type]
    foreign = sorted(set(options) - own)
    if foreign:
        raise RequestError(
            f"the objective {objective!r} has no {', '.join(foreign)}; it takes {', '.join(sorted(own))}"
        )
