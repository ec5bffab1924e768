"""Attacks on certificates: a search for points that refute them, and for how far they are from the truth."""

from sigmax.jobs.attack.job import AttackResult, attack_run
from sigmax.jobs.attack.log import Attacked
from sigmax.jobs.attack.search import Attack

__all__ = ["Attack", "AttackResult", "Attacked", "attack_run"]
