"""From confidence bounds to certified l2 radii, one theorem a file. Needs no torch: nor does checking a proof."""

from sigmax.radius.gaussian import gaussian, largest
from sigmax.radius.lipschitz import lipschitz
from sigmax.radius.routed import routed

__all__ = ["gaussian", "largest", "lipschitz", "routed"]
