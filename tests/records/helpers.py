"""Small runs to write and damage, made by the real rules from made-up counts."""

import json
from zlib import crc32

import numpy as np
import pytest
from hypothesis import strategies as st

import sigmax as sx
from sigmax.records.lines import _MARK, Record, _checksum, decode
from sigmax.records.plan import Plan
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.certificate import Certificate, Role, Stage
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import JointCounts, JointRequest, ScoreRequest, Scores, VoteRequest
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule

gaussian = SmoothedRule.gaussian
RULE = gaussian(0.5, 3)
N0, N, ALPHA = 100, 1_000, 1e-3


def plan(**changes) -> Plan:
    fields = {
        "rule": dict(RULE.describe()),
        "norm": "l2",
        "n0": N0,
        "n": N,
        "alpha": ALPHA,
        "seed": 0,
        "generator": "shake128-sfc64/128",
        "arithmetic": "cpu float32",
        "data": {"name": "digits", "split": "test", "fingerprint": "d" * 32, "classes": ["a", "b", "c"]},
        "inputs": {"start": 0, "skip": 2, "count": 5},
        "system": "s" * 32,
        "made_with": {"sigmax": "0.1.0"},
    }
    return Plan(**{**fields, **changes})


def stages(part: str, sigma: float, picks: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Stage, Stage]:
    """A part's votes before anything is concluded from them."""
    selection = Stage(part, Role.SELECTION, sigma, picks, sum(picks))
    return selection, Stage(part, Role.ESTIMATION, sigma, counts, sum(counts))


def certificate(top: int = 900) -> Certificate:
    return replay(RULE.certifying(n0=N0, n=N, alpha=ALPHA), stages("", 0.5, (N0, 0, 0), (top, N - top, 0)))


def records(count: int = 5) -> list[Record]:
    return [Record(2 * i, i % 3, certificate(500 + 120 * i), seconds=0.25) for i in range(count)]


# Lines to damage


def forge(path, line, change):
    """Alter one line and give it a fitting checksum: only the mathematics can tell."""
    lines = path.read_bytes().splitlines()
    data = json.loads(json.dumps(decode(lines[line - 1])))
    change(data)
    lines[line - 1] = encoded(json.dumps(data, separators=(",", ":")))
    path.write_bytes(b"\n".join(lines) + b"\n")


def findings(path):
    return [(f.line, f.message) for f in sx.verify(path).findings]


def stage(data, name):
    """The stage of this name in the data of a line."""
    return next(s for s in data["stages"] if "/".join(filter(None, (s["part"], s["role"]))) == name)


def encoded(text: str) -> bytes:
    """A line with its checksum, also of numbers that JSON does not know."""
    return f'{text[:-1]}{_MARK}{_checksum(text)}"}}'.encode()


NASTY = (None, True, -1, 0, 1.5, float("nan"), 10**400, "x", "", [], [[]], {}, {"scheme": []}, [None], -1e308)


def spots(data, prefix=()):
    """Every place in nested data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*prefix, key)
        yield from spots(value, (*prefix, key))


def nonsense(path, line, within):
    """The honest data of a line, and with every place in turn put to nonsense; the file holds what is yielded."""
    lines = dict(zip(("plan", "record"), path.read_bytes().splitlines()[::4], strict=False))
    honest = decode(lines[line])
    for turn, spot in enumerate(spots({key: honest[key] for key in within})):
        for value in NASTY[turn % 5 :: 5]:  # all of them everywhere would take minutes
            data = json.loads(json.dumps(honest))
            target = data
            for key in spot[:-1]:
                target = target[key]
            target[spot[-1]] = value
            text = json.dumps(data, separators=(",", ":"))
            path.write_bytes(b"".join(each + b"\n" for each in {**lines, line: encoded(text)}.values()))
            yield honest, data, (spot, value)


def holds(path, where):
    """Whether a run with nonsense there holds; a scheme of another name is refused, as it may be another package's."""
    spot, value = where
    if spot[-1] == "scheme" and isinstance(value, str):
        with pytest.raises(sx.RequestError, match="unknown scheme"):
            sx.verify(path)
        return False
    return sx.verify(path).holds


# Procedures and their answers


def feed(procedure, answer):
    """The certificate that a procedure ends with."""
    try:
        question = next(procedure)
        while True:
            if isinstance(question, JointRequest):
                question = procedure.send(JointCounts(tuple(map(answer, question.asks))))
            else:
                question = procedure.send(answer(question))
    except StopIteration as end:
        return end.value


def shares(**parts):
    """Votes by part: the share of class or route 0; those of a look are the next of the same row."""

    def answer(ask):
        share = parts[ask.part.replace("-", "_") or "base"]
        zeros = round(share * ask.stop) - round(share * ask.start)
        return (zeros, ask.n - zeros)

    return answer


def at_random(seed: int, peaked: float = 0.3):
    """Votes of shares drawn at random for each part, one by one; class 0 leads as often as not."""

    def answer(question):
        rng = np.random.default_rng([seed, crc32(question.part.encode())])
        found = rng.dirichlet([peaked] * question.classes)
        if rng.random() < 0.7:
            found = np.sort(found)[::-1]
        if isinstance(question, ScoreRequest):
            first, second = np.argsort(-found)[:2]
            return Scores(int(first), float(found[first]), float(found[second]), 0.0, 0.0)
        assert isinstance(question, VoteRequest)
        row = np.random.default_rng([seed, crc32(question.stage.encode())]).random(question.stop)[question.start :]
        votes = np.searchsorted(np.cumsum(found)[:-1], row)
        return tuple(map(int, np.bincount(votes, minlength=question.classes)))

    return answer


# Rules of every kind within each other

noises = st.sampled_from([0.12, 0.25, 0.5, 1.0, 2.0])
kinds = st.sampled_from([{"bound": "one-sided"}, {"bound": "runner-up"}, {"defers": True}])
leaves = st.builds(lambda sigma, kind: gaussian(sigma, 3, **kind), noises, kinds) | st.builds(
    LipschitzRule, constant=st.floats(0.1, 10), classes=st.just(3)
)


@st.composite
def _routed(draw, inner):
    experts = draw(st.lists(inner, min_size=2, max_size=3))
    router = gaussian(draw(noises), len(experts), bound=draw(st.sampled_from(["one-sided", "runner-up"])))
    return DualRule(router, tuple(experts), draw(st.sampled_from(["min", "consensus"])))


@st.composite
def _cascaded(draw, inner):
    levels = draw(st.lists(st.builds(gaussian, noises, st.just(3), defers=st.booleans()), min_size=1, max_size=3))
    return CascadeRule(tuple(levels), draw(inner), draw(st.sampled_from([0.5, 0.7])))


def above(inner):
    """A composite over any rules."""
    return _routed(inner) | _cascaded(inner)


trees = above(st.recursive(leaves, above, max_leaves=5))
