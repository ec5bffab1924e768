"""A run as large as a test set, made by the real rule from votes drawn at random.

One in four certificates is recomputed, since that takes the time. Where the others stand is drawn at random too: too
far apart for gzip, which looks back over 32 kB, to make the page smaller by more than a few percent.
"""

from pathlib import Path

import numpy as np

import sigmax as sx
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.rules.certificate import Certificate
from sigmax.rules.procedure import Rule
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule

REPEATED = 4
INPUTS, CLASSES, N0, N, ALPHA = 10_000, 10, 100, 100_000, 1e-3
EXPERTS = tuple(SmoothedRule.gaussian(sigma, CLASSES) for sigma in (0.25, 0.5, 1.0))
DUAL = DualRule(SmoothedRule.gaussian(1.0, 3), EXPERTS, "consensus")


def noise_images(count: int = INPUTS) -> sx.data.Dataset:
    """Images of noise, which no compression makes small."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    names = tuple(f"class {c}" for c in range(CLASSES))
    return sx.data.Dataset("noise", "test", pixels, rng.integers(0, CLASSES, count), names)


def large_run(rule: Rule, images: sx.data.Dataset, *, name: str) -> Run:
    """All images certified; the true class leads nearly always, by as much as chance has it."""
    rng = np.random.default_rng(2)
    made = {c: [certificate(rule, c, rng) for _ in range(_distinct(images, c))] for c in set(images.labels.tolist())}
    records = tuple(
        Record(i, label, made[label][int(rng.integers(len(made[label])))], 0.5)
        for i, label in enumerate(images.labels.tolist())
    )
    plan = Plan(
        rule=dict(rule.describe()),
        n0=N0,
        n=N,
        alpha=ALPHA,
        seed=0,
        norm="l2",
        generator="shake128-sfc64/128",
        arithmetic="cpu float32",
        data={
            "name": images.name,
            "split": images.split,
            "fingerprint": images.fingerprint,
            "classes": list(images.classes),
        },
        inputs={"start": 0, "skip": 1, "count": len(images)},
        system=name,
        made_with={"sigmax": sx.__version__},
    )
    return Run(Path(f"{name}.jsonl"), plan, records, finished=True)


def _distinct(images: sx.data.Dataset, label: int) -> int:
    return -(-int((images.labels == label).sum()) // REPEATED)


def certificate(rule: Rule, label: int, rng: np.random.Generator) -> Certificate:
    """What the rule concludes from votes drawn at random; a router's favourite is drawn too."""
    shares: dict[str, np.ndarray] = {}
    procedure = rule.certifying(n0=N0, n=N, alpha=ALPHA)
    try:
        question = next(procedure)
        while True:
            part = question.part
            if part not in shares:
                favourite = int(rng.integers(question.classes)) if part == "router" else label
                rest = np.full(question.classes, 0.3)
                rest[favourite] = 8
                shares[part] = rng.dirichlet(rest)
            question = procedure.send(tuple(rng.multinomial(question.n, shares[part]).tolist()))
    except StopIteration as end:
        return end.value
