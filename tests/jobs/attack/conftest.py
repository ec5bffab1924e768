"""Attacks in tests make the same predictions every time."""

import random
import secrets

import pytest


@pytest.fixture(autouse=True)
def known_seeds(monkeypatch):
    """Secret seeds of predictions come in a known order: what an attack finds is the same every day."""
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)
