"""A scheme and its networks as one folder, and the jobs that run it."""

from sigmax.system.folder import fingerprint, load, load_together, save
from sigmax.system.hub import from_pretrained, push_to_hub, save_pretrained

__all__ = [
    "fingerprint",
    "from_pretrained",
    "load",
    "load_together",
    "push_to_hub",
    "save",
    "save_pretrained",
]
