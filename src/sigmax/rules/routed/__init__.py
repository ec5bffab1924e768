"""The rule of dual smoothing: a router picks the expert."""
