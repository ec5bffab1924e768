"""Small runs to write and damage, made by the real rule from made-up counts."""

from sigmax.certify.procedure import replay
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Certificate, Stage
from sigmax.records.lines import Record
from sigmax.records.plan import Plan

RULE = SmoothedRule(sigma=0.5, classes=3)
N0, N, ALPHA = 100, 1_000, 1e-3


def plan(**changes) -> Plan:
    fields = {
        "rule": dict(RULE.describe()),
        "n0": N0,
        "n": N,
        "alpha": ALPHA,
        "seed": 0,
        "noise": "shake128-sfc64/128",
        "arithmetic": "cpu float32",
        "data": {"name": "digits", "split": "test", "fingerprint": "d" * 32, "classes": ["a", "b", "c"]},
        "inputs": {"start": 0, "skip": 2, "count": 5},
        "system": "s" * 32,
        "made_with": {"sigmax": "0.1.0"},
    }
    return Plan(**{**fields, **changes})


def certificate(top: int = 900) -> Certificate:
    votes = (top, N - top, 0)
    stages = (Stage("selection", 0.5, (N0, 0, 0), N0), Stage("estimation", 0.5, votes, N))
    return replay(RULE.certifying(n0=N0, n=N, alpha=ALPHA), stages)


def records(count: int = 5) -> list[Record]:
    return [Record(2 * i, i % 3, certificate(500 + 120 * i), seconds=0.25) for i in range(count)]
