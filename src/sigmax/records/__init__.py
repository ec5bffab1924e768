"""Certificates and plans, the journal they are written to, and what can be read back from it."""
