"""Labels for a router: how far each expert certifies each training input."""

from sigmax.jobs.label.labels import Labels, make_labels, read_labels

__all__ = ["Labels", "make_labels", "read_labels"]
