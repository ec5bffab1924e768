"""Dual runs made by the real rules from made-up counts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.special import betaincinv
from scipy.stats import norm

from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.rules.certificate import Certificate
from sigmax.rules.procedure import Answer, Rule, Scores
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule

N0, N, ALPHA = 10, 1000, 1e-3
ROUTER = SmoothedRule.gaussian(1.0, 2)
LOW, HIGH = SmoothedRule.gaussian(0.5, 3), SmoothedRule.gaussian(1.0, 3)
CONSENSUS = DualRule(ROUTER, (LOW, HIGH), "consensus")
MINIMUM = DualRule(ROUTER, (LOW, HIGH), "min")

Answers = Mapping[str, Answer]


def reach(k: int, sigma: float, alpha: float) -> float:
    """The radius of k of N votes, by scipy: an implementation of its own."""
    return float(sigma * norm.ppf(betaincinv(k, N - k + 1, alpha)))


def votes(winner: int, k: int, *, classes: int = 3) -> dict[str, Answer]:
    """All selection votes for one class, then k of the estimation votes; the others go to the next class."""
    rival = (winner + 1) % classes
    estimation = tuple({winner: k, rival: N - k}.get(c, 0) for c in range(classes))
    return {"selection": tuple(N0 * (c == winner) for c in range(classes)), "estimation": estimation}


def under(name: str, answers: Answers) -> dict[str, Answer]:
    """The answers of a part, as the whole asks for them."""
    return {f"{name}/{stage}": answer for stage, answer in answers.items()}


def routed(route: int, k: int, *experts: Answers) -> dict[str, Answer]:
    """k of N votes for a route, and what each expert would answer."""
    parts = {"router": votes(route, k, classes=2), **{f"expert-{j}": e for j, e in enumerate(experts)}}
    return {stage: answer for name, part in parts.items() for stage, answer in under(name, part).items()}


def certificate(rule: Rule, answers: Answers) -> Certificate:
    """What the rule concludes when it is given these answers."""
    procedure = rule.certifying(n0=N0, n=N, alpha=ALPHA)
    try:
        question = next(procedure)
        while True:
            question = procedure.send(answers[question.stage])
    except StopIteration as end:
        return end.value


def run_of(rule: Rule, inputs: Sequence[tuple[int, Answers]], *, name: str, first: int = 0, **plan: Any) -> Run:
    """A run of (label, answers) pairs; the system is known by its `name`, which its file bears too."""
    fields: dict[str, Any] = {
        "rule": dict(rule.describe()),
        "n0": N0,
        "n": N,
        "alpha": ALPHA,
        "seed": 0,
        "norm": rule.norm,
        "generator": "shake128-sfc64/128",
        "arithmetic": "cpu float32",
        "data": {"name": "digits", "split": "test", "fingerprint": "f00d"},
        "inputs": {"start": first, "skip": 1, "count": len(inputs)},
        "system": name,
        "made_with": {"sigmax": "0.1.0", "experts": ["low", "high"]} if isinstance(rule, DualRule) else {},
    }
    records = tuple(
        Record(first + i, label, certificate(rule, answers), 0.5) for i, (label, answers) in enumerate(inputs)
    )
    return Run(Path(f"{name}.jsonl"), Plan(**{**fields, **plan}), records, finished=True)


def seen(winner: int, margin: float) -> dict[str, Answer]:
    """The scores a deterministic expert shows."""
    return {"score": Scores(winner, margin, 0.0, 0.0, 0.0)}
