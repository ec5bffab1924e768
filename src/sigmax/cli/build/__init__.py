"""`sigmax build`: system folders from networks."""
