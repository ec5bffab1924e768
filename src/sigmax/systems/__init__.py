"""A scheme and its networks as one folder: saved, loaded, identified, and shared."""

from sigmax.systems.behaviour import input_shape
from sigmax.systems.folder import fingerprint, load, load_together, save
from sigmax.systems.hub import from_pretrained, push_to_hub, save_pretrained
from sigmax.systems.rebuilt import on_grid

__all__ = [
    "fingerprint",
    "from_pretrained",
    "input_shape",
    "load",
    "load_together",
    "on_grid",
    "push_to_hub",
    "save",
    "save_pretrained",
]
