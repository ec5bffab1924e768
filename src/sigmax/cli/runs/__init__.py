"""Verbs about run files: verify, show, import, export."""
