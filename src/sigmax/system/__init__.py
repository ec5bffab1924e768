"""A scheme and its networks as one folder, and the jobs that run it."""

from sigmax.system.folder import fingerprint, load, load_together, save

__all__ = ["fingerprint", "load", "load_together", "save"]
