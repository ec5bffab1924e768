"""From confidence bounds to certified l2 radii, one theorem a file. Needs no torch: nor does checking a proof."""

from sigmax.radius.cascade import cascade
from sigmax.radius.gaussian import gaussian, largest
from sigmax.radius.lipschitz import lipschitz
from sigmax.radius.memory import Memory, settle
from sigmax.radius.named import kept_out, named
from sigmax.radius.ratio_limits import ratio_limits, sharp_ratio_limits
from sigmax.radius.renyi import renyi
from sigmax.radius.routed import routed
from sigmax.radius.semi_elastic import semi_elastic, xi

__all__ = [
    "Memory",
    "cascade",
    "gaussian",
    "kept_out",
    "largest",
    "lipschitz",
    "named",
    "ratio_limits",
    "renyi",
    "routed",
    "semi_elastic",
    "settle",
    "sharp_ratio_limits",
    "xi",
]
