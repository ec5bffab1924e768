"""Numbers of a run, read from its records."""
