"""From confidence bounds to certified l2 radii, one theorem a file. No torch here: certificates can be checked without it."""

from sigmax.radius.gaussian import gaussian, largest

__all__ = ["gaussian", "largest"]
