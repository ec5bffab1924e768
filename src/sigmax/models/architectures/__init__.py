"""Network architectures by name."""
