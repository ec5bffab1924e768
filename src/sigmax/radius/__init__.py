"""From confidence bounds to certified l2 radii, one theorem a file. Needs no torch: nor does checking a proof."""

from sigmax.radius.gaussian import gaussian, largest

__all__ = ["gaussian", "largest"]
