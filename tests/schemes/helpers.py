"""Affine networks, and procedures driven by made-up answers instead of votes."""

from collections.abc import Callable
from zlib import crc32

import numpy as np
import torch

from sigmax.rules import registry
from sigmax.rules.procedure import Answer, Procedure, Question, Result, Scores, VoteRequest

Answers = Callable[[Question], Answer]


def halfspace(w, b: float = 0.0):
    """Class 1 where w.x + b > 0, else class 0. Smoothed, it is the same classifier."""
    w = torch.as_tensor(w, dtype=torch.float32)
    return lambda batch: (batch @ w + b > 0).long()


def slabs(u, edges):
    """Class by where u.x lies between the edges: parallel slabs."""
    u, edges = torch.as_tensor(u, dtype=torch.float32), torch.tensor(edges, dtype=torch.float32)
    return lambda batch: torch.bucketize((batch @ u).contiguous(), edges)


def feed(procedure: Procedure[Result], answers: Answers) -> tuple[Result, list[Question]]:
    """Drive a procedure by `answers`; its result, and what it asked in order."""
    asked: list[Question] = []
    try:
        question = next(procedure)
        while True:
            asked.append(question)
            question = procedure.send(answers(question))
    except StopIteration as end:
        return end.value, asked


def random_answers(seed: int, peaked: float = 0.5, favourite: float = 0.7) -> Answers:
    """Votes of shares sampled at random for each part, the same in its selection and its estimation.

    `peaked`: the smaller, the more of the votes go to one class. `favourite`: how often that is class 0, so that
    experts agree as often as not. The answer depends on nothing but the seed and the question.
    """

    def answer(question: Question) -> Answer:
        part = question.stage.rpartition("/")[0]
        rng = np.random.default_rng([seed, crc32(part.encode())])
        shares = np.sort(rng.dirichlet([peaked] * question.classes))[::-1]
        if rng.random() > favourite:
            shares = rng.permutation(shares)
        if isinstance(question, VoteRequest):
            sampled = np.random.default_rng([seed, crc32(question.stage.encode())])
            return tuple(map(int, sampled.multinomial(question.n, shares)))
        first, second = np.argsort(-shares, kind="stable")[:2]
        tied = rng.random() < 0.1
        return Scores(int(first), float(shares[first]), float(shares[first if tied else second]), 0.0, 0.0)

    return answer


def every_ending(begin: Callable[[], Procedure[Result]], possible: Callable[[Question], list[Answer]]):
    """Each way a procedure can go: its questions with their answers, and its result."""
    open_paths: list[list[tuple[Question, Answer]]] = [[]]
    while open_paths:
        path = open_paths.pop()
        procedure = begin()
        try:
            question = next(procedure)
            for _, answer in path:
                question = procedure.send(answer)
        except StopIteration as end:
            yield path, end.value
        else:
            open_paths += [[*path, (question, answer)] for answer in possible(question)]


def splits(n: int, classes: int) -> list[tuple[int, ...]]:
    """All ways n votes can fall on the classes."""
    if classes == 1:
        return [(n,)]
    return [(k, *rest) for k in range(n + 1) for rest in splits(n - k, classes - 1)]


def own_schemes() -> list[str]:
    """The schemes of the package itself: another test of the same process may have registered one of its own."""
    return [name for name in registry.names() if registry.entry(name).from_dict.__module__.startswith("sigmax.")]
