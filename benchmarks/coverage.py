"""How often certificates and predictions of every scheme are wrong, against alpha, on problems of known truth.

    python -m benchmarks.coverage --count 100000               # the table of docs/testing_certificates.md
    python -m benchmarks.coverage --count 2000 --alpha 0.05    # the same in less time

The problems (`coverage_problems.py`) press: a share of the votes lies just below a bound, so that a certifier errs as
often as its bounds may. Votes are drawn as multinomial counts and sent to the same generators that certify, resume and
verify; no network and no noise is needed for it. Each row is held against what the bounds that can fail there have of
alpha, by an exact binomial test: it fails where so many errors or more would come once in 10,000 times. Beside it the
same with a fault put into the certifier, whose errors must break alpha itself. The exit code is 1 otherwise.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import stats

from benchmarks.coverage_mutants import MUTANTS
from benchmarks.coverage_problems import CERTIFICATES, PREDICTIONS, Problem
from sigmax import radius
from sigmax.rules.elastic import Elastic
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import Answer, Counts, Question, Scores, SigmaRequest, VoteRequest

SUSPICIOUS = 1e-4
Begin = Callable[[], Generator[Question, Answer, Any]]


@dataclass(frozen=True)
class Row:
    """One cell of the table. p_value: of so many errors or more, had each the probability `allowed`."""

    scheme: str
    kind: str
    alpha: float
    count: int
    wrong: int
    allowed: float
    p_value: float
    mutant: str
    mutant_count: int
    mutant_wrong: int
    mutant_p_value: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the certifier errs no more often than it may."""
        return self.p_value >= SUSPICIOUS

    @property
    def caught(self) -> bool:
        """Whether the faulty one is seen to break alpha."""
        return self.mutant_p_value < SUSPICIOUS


def endings(begin: Begin, problem: Problem, count: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
    """The results of so many independent runs of a procedure, each with how often it came.

    Runs that had the same votes so far go on as one: their next votes are drawn together and then told apart.
    """
    open_paths: list[tuple[tuple[Answer, ...], int]] = [((), count)]
    while open_paths:
        path, times = open_paths.pop()
        procedure = begin()
        try:
            question = next(procedure)
            for answer in path:
                question = procedure.send(answer)
            while times == 1 or isinstance(question, SigmaRequest):
                (answer,) = dict(answers(question, problem, 1, rng))
                path = (*path, answer)
                question = procedure.send(answer)
        except StopIteration as end:
            yield end.value, times
        else:
            open_paths += [((*path, answer), many) for answer, many in answers(question, problem, times, rng)]


def answers(
    question: Question, problem: Problem, times: int, rng: np.random.Generator
) -> Iterator[tuple[float | Counts, int]]:
    """So many answers to a question; equal ones together, with how many they are."""
    if isinstance(question, SigmaRequest):
        yield problem.sigma[question.stage], times
        return
    assert isinstance(question, VoteRequest)
    drawn = rng.multinomial(question.n, problem.shares[question.part], size=times)
    if times == 1:
        yield tuple(drawn[0].tolist()), 1
        return
    for counts, many in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        yield tuple(counts.tolist()), int(many)


def errors(problem: Problem, kind: str, alpha: float, count: int, rng: np.random.Generator) -> int:
    """How many of so many certificates or predictions are wrong."""
    procedure = problem.predicting if kind == "predict" else problem.certifying
    found = endings(lambda: procedure(alpha), problem, count, rng)
    return sum(times for result, times in found if problem.wrong(result))


def lipschitz_errors(count: int, rng: np.random.Generator) -> tuple[int, int]:
    """Wrong certificates and wrong predictions for planes near the input, whose scores are computed in 32 bits.

    The constant is that of the weights as they are, so the margin is the exact distance but for rounding.
    """
    wrong = [0, 0]
    for _ in range(count):
        u, x = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
        exact = u.astype(float) @ x.astype(float)
        edge = np.float32(exact + rng.uniform(-0.01, 0.01))
        score = (x @ u - edge) / np.float32(2**0.5)
        length = float(np.linalg.norm(u.astype(float)))
        label, truth = int(exact > edge), abs(exact - float(edge)) / length
        size = float(np.linalg.norm(x)) + len(x) ** 0.5
        share = radius.rounding(len(x), bits=32)
        seen = Scores(int(score > 0), float(abs(score)), -float(abs(score)), size, share)
        rule = LipschitzRule(length, 2)
        for i, procedure in enumerate((rule.certifying(n0=1, n=1, alpha=0.5), rule.predicting(n=1, alpha=0.5))):
            next(procedure)
            try:
                procedure.send(seen)
            except StopIteration as end:
                claim = end.value
            wrong[i] += claim.predicted is not None and (
                claim.predicted != label or getattr(claim, "radius", 0.0) > truth
            )
    return int(wrong[0]), int(wrong[1])


def row(scheme: str, kind: str, alpha: float, count: int, seed: int) -> Row:
    """Certify or predict so often, with the right certifier and with the faulty one."""
    begun = time.process_time()
    build = (PREDICTIONS if kind == "predict" else CERTIFICATES)[scheme]
    problem, mutant = build(alpha, kind == "adaptive"), MUTANTS[scheme, kind]
    wrong = errors(problem, kind, alpha, count, np.random.default_rng(seed))
    few = max(count // 5, min(count, 10_000))
    with mutant.applied():
        mutated = errors(problem, kind, alpha * mutant.overspends, few, np.random.default_rng(seed))
    allowed = alpha * problem.paid
    found = suspicion(wrong, count, allowed), suspicion(mutated, few, alpha)
    spent = time.process_time() - begun
    return Row(scheme, kind, alpha, count, wrong, allowed, found[0], mutant.name, few, mutated, found[1], spent)


def certain_rows(count: int, seed: int) -> list[Row]:
    """Lipschitz: nothing is sampled, so not one may be wrong. The fault: rounding is not allowed for."""
    begun = time.process_time()
    right = lipschitz_errors(count, np.random.default_rng(seed))
    few = max(count // 5, min(count, 10_000))
    with patch.object(LipschitzRule, "_share", lambda rule, measured: 0.0):
        wrong = lipschitz_errors(few, np.random.default_rng(seed))
    spent = time.process_time() - begun
    return [
        Row("Lipschitz", kind, 0.0, count, a, 0.0, suspicion(a, count, 0.0), "rounding is not allowed for", few, b,
            suspicion(b, few, 0.0), spent / 2)
        for kind, a, b in zip(("certify", "predict"), right, wrong, strict=True)
    ]  # fmt: skip


def suspicion(wrong: int, count: int, chance: float) -> float:
    """How likely so many errors or more would be, had each this chance."""
    return float(stats.binomtest(wrong, count, chance, alternative="greater").pvalue)


def rows(count: int, alphas: list[float], seed: int = 0) -> Iterator[Row]:
    """The whole table."""
    yield from certain_rows(count, seed)
    # The same numbers, looked up: the radius of a ball under changing noise takes milliseconds.
    with patch.object(Elastic, "reach", cache(Elastic.reach)):
        for scheme, kind in MUTANTS:
            yield from (row(scheme, kind, alpha, count, seed) for alpha in alphas)


def as_table(found: list[Row]) -> str:
    """As Markdown."""
    lines = ["| scheme | sampling | alpha | wrong | may be wrong | p-value | fault | wrong with it |", "|---" * 8 + "|"]
    for one in found:
        share, broken = one.wrong / one.count, one.mutant_wrong / one.mutant_count
        lines.append(
            f"| {one.scheme} | {one.kind} | {one.alpha or '-'} | {share:.3%} | {one.allowed:.3%} | {one.p_value:.2g}"
            f" | {one.mutant} | {broken:.2%} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table and the verdict."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--count", type=int, default=100_000, help="certifications a row; a fifth of it with the fault")
    cli.add_argument("--alpha", type=float, nargs="+", default=[0.05, 0.01])
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args(arguments)
    found = []
    for one in rows(asked.count, asked.alpha, asked.seed):
        found.append(one)
        print(f"{one.scheme}, {one.kind}, alpha {one.alpha:g}: {one.wrong} wrong, {one.seconds:.1f} s", file=sys.stderr)
    print(as_table(found))
    bad = [one for one in found if not one.holds or not one.caught]
    seconds = sum(one.seconds for one in found)
    print(f"\n{len(found)} rows of {asked.count:,} in {seconds:.0f} s; {len(bad)} fail or do not catch their fault")
    for one in bad:
        print(f"  {one.scheme}, {one.kind}, alpha {one.alpha:g}: p {one.p_value:.2g}, fault {one.mutant_p_value:.2g}")
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
