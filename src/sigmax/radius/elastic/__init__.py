"""Radii where sigma is a Lipschitz field: the exact worst case, the Rényi bound, and how far sigma may vary."""
