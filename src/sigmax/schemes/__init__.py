"""Schemes a user builds. They only combine data, models, noise, bounds and radii, and never touch files."""
